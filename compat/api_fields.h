/* api_fields.h: parameters, fields and attributes as one line of text, as Python writes them, and
 * back: what the contract file holds.
 *
 *     x: int = 0            a parameter or field
 *     *args: int            star, dstar; `/` and `*` alone part the kinds
 *     x: T = list # factory kw_only init=False InitVar ClassVar NotRequired alias=y    a field
 *     x: T = v # in METHOD calls pkg.C -                            an attribute; "-": no call
 *     list if COND                                                  what a return shows
 *
 * Test: tests/test_api_fields.c */
#ifndef ASSAY_COMPAT_API_FIELDS_H
#define ASSAY_COMPAT_API_FIELDS_H

#include "compat/api.h"

enum { API_IDENTIFIER = 200, API_MODULE = 400 };

/* A name that source text can hold, of at most API_IDENTIFIER bytes. */
bool api_is_identifier(const char *s);
/* "a.b.c": parts that are not empty, without what separates names elsewhere. */
bool api_is_module_name(const char *s);
/* A text that can stand for a type, default or value in a line: not empty, no blank at its ends,
 * brackets and quotes close, and neither " = " nor " # " stands outside of them. */
bool api_fits_line(const char *text);
/* The kinds come in the order that a def can have, each of star and dstar once. */
bool api_params_ordered(const struct api_params *p);

/* Writers: the text in *out, from the pool; NULL with `err` set when memory is short. */
char *api_param_text(const struct api_param *p, struct pool *pool, struct err *err);
char *api_field_text(const struct api_field *f, struct pool *pool, struct err *err);
char *api_attr_text(const struct api_attr *d, struct pool *pool, struct err *err);

/* Parameters as texts, with the markers `/` and `*` where they belong. */
struct api_texts api_params_texts(const struct api_params *p, struct pool *pool, struct err *err);
/* The kind is left open where it hangs on the markers around it: see api_params_from(). NULL: fine;
 * else what is wrong, a text for a message. Parts come from the pool. */
const char *api_param_from(const char *text, struct api_param *out, struct pool *pool,
                           struct err *err);
const char *api_params_from(const struct api_texts *texts, struct api_params *out,
                            struct pool *pool, struct err *err);
const char *api_field_from(const char *text, struct api_field *out, struct pool *pool,
                           struct err *err);
const char *api_attr_from(const char *text, struct api_attr *out, struct pool *pool,
                          struct err *err);

#endif
