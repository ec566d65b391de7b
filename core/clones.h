/* clones.h: a function compiled for several vector units, of which the program takes the best at
 * its start. That choice is made before the thread sanitizer is ready, and it dies of it: there is
 * one version then. */
#ifndef ASSAY_CORE_CLONES_H
#define ASSAY_CORE_CLONES_H

#ifdef __SANITIZE_THREAD__
#define CLONES
#else
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

#endif
