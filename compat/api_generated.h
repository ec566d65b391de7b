/* api_generated.h: constructors that nobody wrote: which classes get one, and from which fields.
 * Test: tests/test_api_signature.c */
#ifndef ASSAY_COMPAT_API_GENERATED_H
#define ASSAY_COMPAT_API_GENERATED_H

#include "compat/api_lookup.h"

enum api_generator {
    API_MADE_BY_NONE,
    API_MADE_BY_DATACLASS, /* and what is marked dataclass_transform */
    API_MADE_BY_ATTRS,
    API_MADE_BY_STRUCT,
    API_MADE_BY_PYDANTIC,
    API_MADE_BY_PYDANTIC_DATACLASS,
    API_MADE_BY_NAMEDTUPLE,
    API_MADE_BY_TYPEDDICT
};

/* What makes an __init__ for this class, for its own sake: an undecorated subclass of a dataclass
 * has none of its own. */
enum api_generator api_generator_of(const struct api *a, const struct api_def *c);

/* The signature it makes. *open: an alias or a setting may allow other names. */
void api_generate(const struct api *a, const struct api_def *c, enum api_generator by,
                  struct pool *p, struct api_signature *out, bool *open, struct err *err);

#endif
