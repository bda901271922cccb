/* What the module for DICOM gives: libsplit_dicom.so (client/dicom), which splitc opens when a DICOM file comes. It is
 * built where DCMTK is, in C++; nobody else needs that library. */
#ifndef SL_CLIENT_DATA_DICOM_H
#define SL_CLIENT_DATA_DICOM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_DICOM_ABI = 1, SL_DICOM_WHY = 300 };

struct sl_dicom_ask {
	int64_t max_pixels;
	int windowed; /* show `window`, centre and width, in place of the file's */
	double window[2];
	/* Memory for h × w pixels of `channels` numbers of 16 bits; NULL: there is none. Called once the sizes are
	 * known, and before pixels are decoded. */
	uint16_t *(*room)(void *arg, int h, int w, int channels);
	void *arg;
};

enum sl_dicom_outcome { SL_DICOM_READ, SL_DICOM_BAD, SL_DICOM_NO_MEMORY };

struct sl_dicom {
	uint32_t abi;
	/* Fills what `room` gave with 0 … 65535. Grey: first rescale slope and intercept, then the window by PS3.3
	 * C.11.2.1.2; without a window, all values that the stored bits can have. 0 is black, in MONOCHROME1, too.
	 * Colours are as they are. Else a sentence in `why`, without the file's name. Any thread. */
	enum sl_dicom_outcome (*read)(const uint8_t *bytes, size_t len, const struct sl_dicom_ask *ask,
				      char why[SL_DICOM_WHY]);
};

/* The module's only symbol, "sl_dicom_module". */
typedef const struct sl_dicom *sl_dicom_fn(void);

#ifdef __cplusplus
}
#endif

#endif
