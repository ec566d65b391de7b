/* api_base.h: what is known of classes outside of any recorded library: the standard library's and
 * those of a few packages that classes are commonly made from. Data, from their documentation.
 * Test: tests/test_api_class.c */
#ifndef ASSAY_COMPAT_API_BASE_H
#define ASSAY_COMPAT_API_BASE_H

#include "compat/api_lookup.h"

struct api_base {
    const char *name;       /* "enum.Enum"; several, parted by blanks, for one class */
    unsigned traits;        /* enum api_trait */
    const char *attributes; /* what an instance has besides what object has, parted by blanks */
};

/* NULL: nobody knows it. */
const struct api_base *api_base_of(const char *name);
/* `word` is one of the words of a text parted by blanks. */
bool api_has_word(const char *words, const char *word);
/* Every object has it; a class has more. */
bool api_object_has(const char *name, bool on_class);

/* What a decorator of a class does to it. `text` as written: "pkg.deco(kw_only=True)". */
enum api_decorator {
    API_DECORATOR_PLAIN, /* keeps the class as it is written */
    API_DECORATOR_DATACLASS,
    API_DECORATOR_PYDANTIC, /* pydantic.dataclasses.dataclass: converts, takes no more than fields
                             */
    API_DECORATOR_ATTRS,
    API_DECORATOR_UNKNOWN
};
enum api_decorator api_decorator_of(const char *text);
/* A decorator of the class that nobody knows, from outside of its own library; NULL: none. */
const char *api_strange_decorator(const struct api_def *c);
/* True or false where the text's call says KEYWORD=True or =False; else `dflt`. */
bool api_says(const char *text, const char *keyword, bool dflt);

#endif
