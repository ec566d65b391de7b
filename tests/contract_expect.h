/* contract_expect.h: what `assay contract check` must find in a folder of fixtures/contract: the
 * file `expect` beside the consumer, held against the findings of a run.
 *
 *     # what the folder is about
 *     receiver night:beast=wolf.Wolf              an option of the command, given to every run
 *     broken consumer.py:4 Belt "buckle" "holes"  the verdict, the place, a part of the symbol, and
 *                                                 texts that the finding must hold
 *     ok|undecidable consumer.py:7 Press          either; where ok is one of several, none will do
 *     old broken consumer.py:9 pick               the same, of the run against the library in old/
 *
 * Whatever is not listed must not be reported: a finding that is broken or undecidable and that no
 * line asks for is a failure, and so is a line that no finding answers. A finding that is ok needs
 * no line; a line with ok asks for one, so that nothing passes because nobody looked. */
#ifndef ASSAY_TESTS_CONTRACT_EXPECT_H
#define ASSAY_TESTS_CONTRACT_EXPECT_H

#include "tests/cli.h"

enum { EXPECT_LINES = 48, EXPECT_TEXTS = 4, EXPECT_WORD = 96 };

struct expect_line {
    bool old; /* of the run against old/ */
    int line; /* of the consumer */
    char verdict[EXPECT_WORD], file[EXPECT_WORD], symbol[EXPECT_WORD];
    int texts;
    char text[EXPECT_TEXTS][EXPECT_WORD];
};

struct expect {
    int lines;
    struct expect_line line[EXPECT_LINES];
    char receiver[EXPECT_WORD]; /* empty: none */
};

/* The extractor is a Python program: without python3 the calling test fails, or is skipped where
 * ASSAY_WITHOUT_PYTHON says that it need not run. */
void expect_python(void);
/* Reads the file; a line that is none of the above fails the test. */
void expect_read(struct expect *e, const char *path);
/* How often `findings` differs from the lines of `old`; each difference is printed behind `where`.
 */
int expect_differs(const struct expect *e, bool old, const json_t *findings, const char *where);
/* A line of `old` asks for the verdict "broken" and nothing else. */
bool expect_broken(const struct expect *e, bool old);

#endif
