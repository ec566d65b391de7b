/* terminal.c: see terminal.h. */
#include "harness/terminal.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

int terminal_columns(int fd)
{
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 0;
    return size.ws_col < TERMINAL_COLUMNS_LEAST ? TERMINAL_COLUMNS_LEAST : size.ws_col;
}

struct text_view terminal_view(int most)
{
    return (struct text_view){.colour = isatty(STDOUT_FILENO) && !getenv("NO_COLOR"),
                              .columns = terminal_columns(STDOUT_FILENO),
                              .most = most};
}
