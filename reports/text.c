/* text.c: see text.h. */
#include "reports/text.h"

#include "reports/markup.h"

#include <stdlib.h>
#include <string.h>

void text_show(const json_t *result, FILE *out, struct text_view view, const char *verdict,
               text_report *print)
{
    const char *paint = !view.colour ? "" : strcmp(verdict, "PASS") == 0 ? "\x1b[32m" : "\x1b[31m";
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (f) {
        print(result, f, view);
        fclose(f);
    }
    fputs(paint, out);
    markup_terminal(out, verdict, strlen(verdict));
    fputs(view.colour ? "\x1b[0m" : "", out);
    if (text)
        markup_terminal(out, text, size);
    else
        fputs(": no memory for the rest of this report\n", out);
    free(text);
}
