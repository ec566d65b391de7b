/* judge_protocol.h: what Python itself does with a thing of the library where the consumer writes
 * no call and no attribute: a decorator is called with what it stands over, `with` enters, `for`
 * iterates, an enum's item is looked up, a base is inherited from, an exception caught. Each fails
 * with a TypeError or KeyError there, and is said only where nothing can make it hold. Test:
 * tests/test_judge_protocol.c */
#ifndef ASSAY_COMPAT_JUDGE_PROTOCOL_H
#define ASSAY_COMPAT_JUDGE_PROTOCOL_H

#include "compat/judge_parts.h"

/* Decorator `v` is called with `made`, an own function or class. */
void judge_decorated(struct frame *f, const struct value *v, const struct value *made,
                     const struct expr *decorator);
/* E["NAME"] of an enum: its item as a value; NULL: no enum, or no name written out. */
const struct value *judge_enum_item(struct frame *f, const struct value *v,
                                    const struct value *index, int line);
/* An own class inherits from `v`. */
void judge_inherited(struct frame *f, const struct value *v, int line);
/* `except type:` of a class, or of a tuple of them. */
void judge_caught(struct frame *f, const struct expr *type);
/* C(...) of class `c` binds. */
void judge_constructed(struct frame *f, const struct api_def *c, int line);
/* `with v:`, or `async with`. */
void judge_entered(struct frame *f, const struct value *v, bool async, int line);
/* `for x in v:`, not `async for`. */
void judge_iterated(struct frame *f, const struct value *v, int line);
/* v[...] and len(v), where v is what a generator function gives. */
void judge_generator(struct frame *f, const struct value *v, const char *use, int line);
/* An object is assigned to: of a frozen dataclass it has no field that can be. True: said. */
bool judge_frozen(struct frame *f, const struct api_def *c, const struct api_attribute *at,
                  const char *symbol, int line);

#endif
