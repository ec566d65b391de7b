/* campaign_folder.h: a folder of a campaign's own, and what lies in it. Test:
 * tests/test_campaign_folder.c */
#ifndef ASSAY_HARNESS_CAMPAIGN_FOLDER_H
#define ASSAY_HARNESS_CAMPAIGN_FOLDER_H

#include "core/error.h"
#include "core/file.h"

/* A new folder below TMPDIR, else /tmp. */
enum err_code campaign_folder_make(char path[FILE_PATH], struct err *err) ERR_USED;
/* Removes it with all that it holds; a path that is not there is fine. */
void campaign_folder_remove(const char *path);
/* Nothing below the folder is half written: every *.safetensors and *.json can be read whole, and
 * no temporary name is left. ERR_FAULT names the first file that is. *files: how many were looked
 * at. */
enum err_code campaign_folder_whole(const char *path, int *files, struct err *err) ERR_USED;

#endif
