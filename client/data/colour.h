/* Changes of colour, byte for byte as Pillow's ImageEnhance and torchvision's adjust_hue make them. pixels: [n, 3]. */
#ifndef SL_CLIENT_DATA_COLOUR_H
#define SL_CLIENT_DATA_COLOUR_H

#include <stddef.h>
#include <stdint.h>

/* factor 1 changes nothing. 0 gives black (brightness), the mean luma everywhere (contrast), the grey picture
 * (saturation). Results are clipped. */
void sl_colour_brightness(uint8_t *pixels, size_t n, float factor);
void sl_colour_contrast(uint8_t *pixels, size_t n, float factor);
void sl_colour_saturation(uint8_t *pixels, size_t n, float factor);
/* shift: in [−0.5, 0.5], as a fraction of the hue circle */
void sl_colour_hue(uint8_t *pixels, size_t n, double shift);

/* The other operations of RandAugment. out [h, w, 3] = before [h, w, 3], another buffer: factor 0 smooths, 2
 * sharpens. */
void sl_colour_sharpness(uint8_t *out, const uint8_t *before, int h, int w, float factor);
void sl_colour_posterize(uint8_t *pixels, size_t n, int bits);        /* keeps the upper bits, 0 … 8 */
void sl_colour_solarize(uint8_t *pixels, size_t n, double threshold); /* inverts values from threshold on */
void sl_colour_stretch(uint8_t *pixels, size_t n);                    /* autocontrast: each channel from 0 to 255 */
void sl_colour_equalize(uint8_t *pixels, size_t n);                   /* levels each channel's histogram */

/* Changes brightness (colour 0), contrast (1) or saturation (2) of floats of 0 … 65535, `channels` (1 or 3) a pixel.
 * Nothing is rounded. */
void sl_colour_deep(float *pixels, size_t n, int channels, int colour, double factor);

#endif
