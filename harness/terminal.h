/* terminal.h: what is known of the terminal that a person reads on. Test: tests/test_cli_terminal.c
 */
#ifndef ASSAY_HARNESS_TERMINAL_H
#define ASSAY_HARNESS_TERMINAL_H

#include "reports/text.h"

enum { TERMINAL_COLUMNS_LEAST = 40 /* narrower ones are taken for as wide */ };

/* Columns of the terminal at `fd`; 0: it is none, or does not say. */
int terminal_columns(int fd);

/* Stdout as it is: on a terminal its columns, and colours but where NO_COLOR is set. */
struct text_view terminal_view(int most);

#endif
