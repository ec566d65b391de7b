/* head_class.h: the configuration classes that a draft head's decoder layer may name, and their
 * defaults: a key that config.json leaves out has the default of its class (transformers 5.17,
 * read off the classes). Test: tests/test_head_config.c */
#ifndef ASSAY_CORE_HEAD_CLASS_H
#define ASSAY_CORE_HEAD_CLASS_H

#include "core/head.h"
#include "core/json.h"

struct head_class {
    const char *model_type, *name;
    enum head_kind kind;
    bool qk_norm;
    int64_t vocab, hidden, intermediate, layers, heads;
    int64_t kv_heads; /* 0: as many as heads */
    int64_t head_dim; /* 0: hidden / heads */
    int64_t max_position;
    int64_t q_lora, kv_lora, nope, rope, v_head; /* MLA */
};

/* By model_type, or where there is none by `architectures`. Refused: neither, a name that is not
 * known, the two at odds. `decoder`: the object with the decoder's keys; `root`: with
 * architectures. */
enum err_code head_class_find(const json_t *decoder, const json_t *root, const char *where,
                              const struct head_class **out, struct err *err) ERR_USED;

#endif
