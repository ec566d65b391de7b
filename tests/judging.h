/* judging.h: small consumers and libraries as the extractor's JSON, put together from macros, and
 * judged. Each statement and expression gets its line as a text: "3". */
#ifndef ASSAY_TESTS_JUDGING_H
#define ASSAY_TESTS_JUDGING_H

#include "compat/judge_api.h"
#include "tests/support.h"

#define NAME(l, id) "{\"e\":\"name\",\"line\":" l ",\"id\":\"" id "\"}"
#define ATTR(l, v, n) "{\"e\":\"attr\",\"line\":" l ",\"value\":" v ",\"name\":\"" n "\"}"
#define CALL(l, f, args, kw)                                                                       \
    "{\"e\":\"call\",\"line\":" l ",\"func\":" f ",\"args\":[" args "],\"kw\":[" kw "]}"
#define KW(n, v) "[\"" n "\"," v "]"
#define NUM(l, n) "{\"e\":\"const\",\"line\":" l ",\"v\":" n "}"
#define TRUTH(l, v) NUM(l, v)
#define STR(l, s) "{\"e\":\"str\",\"line\":" l ",\"v\":\"" s "\"}"
#define COMPARE(l, a, op, b)                                                                       \
    "{\"e\":\"compare\",\"line\":" l ",\"left\":" a ",\"ops\":[\"" op "\"],\"right\":[" b "]}"

#define IMPORT(l, m) "{\"s\":\"import\",\"line\":" l ",\"names\":[[\"" m "\",null]]}"
#define FROM(l, m, n)                                                                              \
    "{\"s\":\"from\",\"line\":" l ",\"module\":\"" m "\",\"level\":0,\"names\":[[\"" n             \
    "\",null," l "]]}"
#define DO(l, e) "{\"s\":\"expr\",\"line\":" l ",\"value\":" e "}"
#define SET(l, t, v) "{\"s\":\"assign\",\"line\":" l ",\"targets\":[" t "],\"value\":" v "}"
#define IF(l, test, body, other)                                                                   \
    "{\"s\":\"if\",\"line\":" l ",\"test\":" test ",\"body\":[" body "],\"else\":[" other "]}"
#define TRY(l, body, type, handler)                                                                \
    "{\"s\":\"try\",\"line\":" l ",\"body\":[" body "],\"handlers\":[{\"type\":" type              \
    ",\"as\":null,\"line\":" l ",\"body\":[" handler "]}],\"else\":[],\"finally\":[]}"
#define CLASS(l, name, bases, body)                                                                \
    "{\"s\":\"class\",\"line\":" l ",\"name\":\"" name "\",\"bases\":[" bases                      \
    "],\"keywords\":[],\"decorators\":[],\"body\":[" body "]}"
#define DEF(l, name, params, body)                                                                 \
    "{\"s\":\"def\",\"line\":" l ",\"name\":\"" name "\",\"params\":[" params                      \
    "],\"decorators\":[],\"returns\":null,\"async\":false,\"body\":[" body "]}"
#define PARAM(name) "{\"name\":\"" name "\",\"kind\":\"any\"}"
#define ANNOTATED(name, type) "{\"name\":\"" name "\",\"kind\":\"any\",\"type\":" type "}"

/* A library of one module, lib: its names. */
#define FUNCTION(name, line, binding, params, returns)                                             \
    "\"" name "\":[{\"kind\":\"function\",\"line\":" line ",\"params\":[" params                   \
    "],\"returns\":" returns ",\"decorators\":[],\"async\":false,\"binding\":\"" binding "\"}]"
#define TAKES(name) "{\"name\":\"" name "\",\"kind\":\"any\"}"
#define DEFAULTS(name, value) "{\"name\":\"" name "\",\"kind\":\"any\",\"default\":\"" value "\"}"
#define KLASS(name, line, members)                                                                 \
    "\"" name "\":[{\"kind\":\"class\",\"line\":" line                                             \
    ",\"bases\":[],\"keywords\":{},\"decorators\":[],\"fields\":[],\"members\":{" members          \
    "},\"attrs\":{}}]"

struct judging {
    struct arena arena;
    struct api library, baseline;
    struct uses uses;
    struct judge_report report;
    struct err err;
};

/* What is asked; what is NULL is not given. */
struct judging_asks {
    const char *names;    /* of lib, version 2.0 */
    const char *baseline; /* the same, version 1.0 */
    const char *body;     /* of app, "app.py" */
    const char *hint;
    struct judge_accept *accept;
};

/* Judges; the code is also in j->err. Everything is freed by judging_end(). */
enum err_code judging_run(struct judging *j, const struct judging_asks *asks);
void judging_end(struct judging *j);

/* The finding of that line whose symbol ends in `symbol`, or the test fails. */
const struct judge_finding *judging_at(const struct judging *j, int line, const char *symbol);
/* Judges, and wants that many broken findings. */
void judging_wants(struct judging *j, const struct judging_asks *asks, int broken);

#endif
