/* main.c: the program. Everything is in the library; see assay_main() in verb.c. */
#include "harness/verb.h"

int main(int argc, char **argv)
{
    return assay_main(argc, argv);
}
