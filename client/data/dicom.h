/* The interface of the DICOM module, libsplit_dicom.so (client/dicom). splitc opens it when it meets a DICOM file.
 * The module is C++, and is built where DCMTK is installed; nothing else needs that library. */
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
	int windowed; /* use `window` (centre, width) instead of the file's */
	double window[2];
	/* Returns memory for h × w pixels of `channels` numbers of 16 bits; NULL: it refuses. The module calls it
	 * when it knows the sizes, before it decodes pixels. */
	uint16_t *(*room)(void *arg, int h, int w, int channels);
	void *arg;
};

enum sl_dicom_outcome { SL_DICOM_READ, SL_DICOM_BAD, SL_DICOM_NO_MEMORY };

struct sl_dicom {
	uint32_t abi;
	/* Decodes a file into the memory from `room`, as 0 … 65535. Grey passes through the rescale slope and
	 * intercept, then the window by PS3.3 C.11.2.1.2; without a window, the range of the stored bits is used. 0
	 * is black, in MONOCHROME1, too. Colours are not windowed. On failure, a sentence in `why`, without the
	 * file's name. Any thread. */
	enum sl_dicom_outcome (*read)(const uint8_t *bytes, size_t len, const struct sl_dicom_ask *ask,
				      char why[SL_DICOM_WHY]);
};

/* The module's only symbol, "sl_dicom_module". */
typedef const struct sl_dicom *sl_dicom_fn(void);

#ifdef __cplusplus
}
#endif

#endif
