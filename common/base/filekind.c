#include "common/base/filekind.h"

#include <string.h>
#include <strings.h>

#include "common/base/text.h"

static const struct {
	const char *begins, *is;
	size_t at; /* where these bytes are */
	const char *then;
} kinds[] = {
	{"\x1f\x8b", "a gzip archive: unpack it with gunzip", 0, ""},
	{"PK\3\4", "a ZIP archive or a workbook (.xlsx): unpack it, or save the sheet as CSV in UTF-8", 0, ""},
	{"BZh", "a bzip2 archive: unpack it with bunzip2", 0, ""},
	{"\xfd"
	 "7zXZ",
	 "an xz archive: unpack it with unxz", 0, ""},
	{"\x28\xb5\x2f\xfd", "a zstd archive: unpack it with unzstd", 0, ""},
	{"PAR1", "a Parquet file: write it as CSV in UTF-8", 0, ""},
	{"%PDF-", "a PDF", 0, ""},
	{"GIF8", "a GIF: save it as PNG", 0, ""},
	{"ftyp", "an AVIF picture: save it as PNG or JPEG", 4, "avif"},
	{"ftyp", "a HEIC picture or a video: save it as PNG or JPEG", 4, ""},
	{"version https://git-lfs", "a Git LFS pointer, and not the file itself: `git lfs pull` gets it", 0, ""},
};

const char *sl_filekind(const void *data, size_t len)
{
	static const char page[] = "an HTML page, as a site sends for an error or a login: download the file again";
	const char *text = data, *start;
	const size_t begin = sl_text_begin(data, len);

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		const size_t n = strlen(kinds[i].begins), m = strlen(kinds[i].then), end = kinds[i].at + n + m;

		if (len >= end && memcmp(text + kinds[i].at, kinds[i].begins, n) == 0 &&
		    memcmp(text + end - m, kinds[i].then, m) == 0)
			return kinds[i].is;
	}
	if (len - begin < sizeof "<!doctype html" - 1)
		return NULL;
	start = text + begin;
	return strncasecmp(start, "<!doctype html", 14) == 0 || strncasecmp(start, "<html", 5) == 0 ? page : NULL;
}
