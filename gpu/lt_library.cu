/* lt_library.cu: see lt_library.cuh. */
#include "gpu/lt_library.cuh"

#include "core/check.h"
#include "core/library.h"

#include <cublasLt.h>

#define TEXT(x) TEXT_(x)
#define TEXT_(x) #x
#define SONAME(major) "libcublasLt.so." TEXT(major)

/* Where it is looked for: as the system finds libraries, then where the toolkit puts it. */
static const char *const names[] = {SONAME(CUBLAS_VER_MAJOR),
                                    "/usr/local/cuda/lib64/" SONAME(CUBLAS_VER_MAJOR), NULL};

/* Every function that is passed on, in one list. */
#define FUNCTIONS(F)                                                                               \
    F(cublasLtCreate)                                                                              \
    F(cublasLtGetStatusString)                                                                     \
    F(cublasLtMatmul)                                                                              \
    F(cublasLtMatmulAlgoConfigGetAttribute)                                                        \
    F(cublasLtMatmulAlgoGetHeuristic)                                                              \
    F(cublasLtMatmulDescInit_internal)                                                             \
    F(cublasLtMatmulDescSetAttribute)                                                              \
    F(cublasLtMatmulPreferenceInit_internal)                                                       \
    F(cublasLtMatmulPreferenceSetAttribute)                                                        \
    F(cublasLtMatrixLayoutInit_internal)                                                           \
    F(cublasLtMatrixLayoutSetAttribute)

#define MEMBER(name) decltype(&name) name##_;
static struct {
    FUNCTIONS(MEMBER)
} library;
#undef MEMBER

static bool opened;

static enum err_code find_all(void *handle, struct err *err)
{
#define ENTRY(name) {#name, &library.name##_},
    const struct library_function list[] = {FUNCTIONS(ENTRY)};
#undef ENTRY
    const char *missing = library_find_all(handle, list, sizeof list / sizeof list[0]);
    if (missing)
        return err_set(err, ERR_DEVICE, "open cuBLASLt|%s|no function %s|the library of CUDA %d",
                       names[0], missing, CUBLAS_VER_MAJOR);
    opened = true;
    return ERR_OK;
}

enum err_code lt_library_open(struct err *err)
{
    char why[160];
    if (opened) return ERR_OK;
    void *handle = library_open(names, why, sizeof why);
    if (handle) return find_all(handle, err);
    return err_set(err, ERR_DEVICE, "open cuBLASLt|%s|%s|the library of CUDA %d", names[0], why,
                   CUBLAS_VER_MAJOR);
}

/* ---- what cublasLt.h declares ---- */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    CHECK(opened);
    return library.cublasLtCreate_(handle);
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    CHECK(opened);
    return library.cublasLtGetStatusString_(status);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,
                              const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_size, cudaStream_t stream)
{
    CHECK(opened);
    return library.cublasLtMatmul_(handle, product, alpha, a, a_layout, b, b_layout, beta, c,
                                   c_layout, d, d_layout, algo, workspace, workspace_size, stream);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    void *value, size_t size, size_t *written)
{
    CHECK(opened);
    return library.cublasLtMatmulAlgoConfigGetAttribute_(algo, name, value, size, written);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *count)
{
    CHECK(opened);
    return library.cublasLtMatmulAlgoGetHeuristic_(handle, product, a, b, c, d, preference, wanted,
                                                   results, count);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t product, size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale)
{
    CHECK(opened);
    return library.cublasLtMatmulDescInit_internal_(product, size, compute, scale);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t size)
{
    CHECK(opened);
    return library.cublasLtMatmulDescSetAttribute_(product, name, value, size);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference,
                                                     size_t size)
{
    CHECK(opened);
    return library.cublasLtMatmulPreferenceInit_internal_(preference, size);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void *value, size_t size)
{
    CHECK(opened);
    return library.cublasLtMatmulPreferenceSetAttribute_(preference, name, value, size);
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t ld)
{
    CHECK(opened);
    return library.cublasLtMatrixLayoutInit_internal_(layout, size, type, rows, columns, ld);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void *value, size_t size)
{
    CHECK(opened);
    return library.cublasLtMatrixLayoutSetAttribute_(layout, name, value, size);
}
