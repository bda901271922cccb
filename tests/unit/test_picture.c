/* Pictures that are truncated, damaged, too large or of an unknown format: each is refused with one
 * line. */

#include <png.h>
#include <stdio.h> /* before jpeglib.h */

#include <jpeglib.h>
#include <tiffio.h>
#include <unistd.h>
#include <webp/encode.h>
#include <zlib.h>

#include "client/data/picture_format.h"
#include "common/base/log.h"
#include "tests/support/unit.h"

enum { H = 24, W = 36, MOST = 1 << 16, MAX_PIXELS = 1 << 20 };

static uint8_t pixels[H * W * 3];
static struct sl_room room;

struct file {
	const char *name;
	uint8_t bytes[MOST];
	size_t len;
	size_t ends_at; /* bytes after it are not needed to decode all pixels */
};

static void put(struct file *f, const void *bytes, size_t n)
{
	assert_true(f->len + n <= MOST);
	memcpy(f->bytes + f->len, bytes, n);
	f->len += n;
}

static void put32(struct file *f, uint32_t v)
{
	put(f, (uint8_t[]){(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)}, 4);
}

static void make_jpeg(struct file *f, bool progressive)
{
	struct jpeg_compress_struct info;
	struct jpeg_error_mgr mgr;
	unsigned char *out = NULL;
	unsigned long n = 0;

	info.err = jpeg_std_error(&mgr);
	jpeg_create_compress(&info);
	jpeg_mem_dest(&info, &out, &n);
	info.image_height = H;
	info.image_width = W;
	info.input_components = 3;
	info.in_color_space = JCS_RGB;
	jpeg_set_defaults(&info);
	if (progressive)
		jpeg_simple_progression(&info);
	jpeg_start_compress(&info, TRUE);
	while (info.next_scanline < H)
		jpeg_write_scanlines(&info, &(JSAMPROW){pixels + (size_t)info.next_scanline * W * 3}, 1);
	jpeg_finish_compress(&info);
	jpeg_destroy_compress(&info);
	put(f, out, n);
	free(out);
	f->ends_at = progressive ? 0 : f->len - 4; /* the last bits may be padding */
	f->name = progressive ? "progressive JPEG" : "JPEG";
}

static void make_png(struct file *f)
{
	png_image image = {.version = PNG_IMAGE_VERSION, .width = W, .height = H, .format = PNG_FORMAT_RGB};
	png_alloc_size_t n = MOST;

	assert_true(png_image_write_to_memory(&image, f->bytes, &n, 0, pixels, 0, NULL));
	f->len = n;
	f->ends_at = n - 12 - 8; /* less the IEND chunk, and the checksum of the chunk before it */
	f->name = "PNG";
}

static void make_webp(struct file *f, bool lossless)
{
	uint8_t *out = NULL;
	size_t n = lossless ? WebPEncodeLosslessRGB(pixels, W, H, W * 3, &out)
			    : WebPEncodeRGB(pixels, W, H, W * 3, 80, &out);

	put(f, out, n);
	WebPFree(out);
	f->ends_at = 0;
	f->name = lossless ? "lossless WebP" : "WebP";
}

static TIFF *begin_tiff(char path[24], int bits, int samples)
{
	TIFF *tiff;

	strcpy(path, "/tmp/split-test-XXXXXX");
	tiff = TIFFFdOpen(mkstemp(path), path, "w");
	assert_non_null(tiff);
	TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, W);
	TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, H);
	TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, bits);
	TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, samples);
	TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, samples == 3 ? PHOTOMETRIC_RGB : PHOTOMETRIC_MINISBLACK);
	TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG);
	TIFFSetField(tiff, TIFFTAG_COMPRESSION, COMPRESSION_LZW);
	return tiff;
}

static void end_tiff(struct file *f, TIFF *tiff, const char *path)
{
	FILE *file;

	TIFFClose(tiff);
	file = fopen(path, "rb");
	f->len = fread(f->bytes, 1, MOST, file);
	fclose(file);
	unlink(path);
	f->name = "TIFF";
}

static void make_turned_tiff(struct file *f, int orientation, int format)
{
	char path[24];
	TIFF *tiff = begin_tiff(path, 8, 3);

	TIFFSetField(tiff, TIFFTAG_ORIENTATION, orientation);
	TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT, format);
	for (uint32_t y = 0; y < H; y++)
		assert_int_equal(TIFFWriteScanline(tiff, pixels + (size_t)y * W * 3, y, 0), 1);
	end_tiff(f, tiff, path);
}

static void make_tiff(struct file *f)
{
	make_turned_tiff(f, ORIENTATION_TOPLEFT, SAMPLEFORMAT_UINT);
}

/* 16 bits in tiles of 16 x 32, which reach beyond both edges. Sample k of pixel (y, x) is 1000 y + 10 x + k. */
static void make_tiles(struct file *f, int samples)
{
	enum { ACROSS = 32, DOWN = 16 };
	uint16_t tile[DOWN * ACROSS * 3];
	char path[24];
	TIFF *tiff = begin_tiff(path, 16, samples);

	TIFFSetField(tiff, TIFFTAG_TILEWIDTH, ACROSS);
	TIFFSetField(tiff, TIFFTAG_TILELENGTH, DOWN);
	for (uint32_t y = 0; y < H; y += DOWN)
		for (uint32_t x = 0; x < W; x += ACROSS) {
			for (int i = 0; i < DOWN * ACROSS * samples; i++)
				tile[i] = (uint16_t)(1000 * (y + (uint32_t)(i / samples / ACROSS)) +
						     10 * (x + (uint32_t)(i / samples % ACROSS)) +
						     (uint32_t)(i % samples));
			assert_true(TIFFWriteTile(tiff, tile, x, y, 0, 0) > 0);
		}
	end_tiff(f, tiff, path);
}

static void make_bmp(struct file *f)
{
	put(f, "BM", 2);
	put32(f, 54 + H * W * 3);
	put32(f, 0);
	put32(f, 54);
	put32(f, 40);
	put32(f, W);
	put32(f, H);
	put(f, (uint8_t[]){1, 0, 24, 0}, 4);
	for (int i = 0; i < 6; i++)
		put32(f, 0);
	for (int y = H - 1; y >= 0; y--)
		for (int x = 0; x < W; x++)
			for (int c = 2; c >= 0; c--)
				put(f, &pixels[(y * W + x) * 3 + c], 1);
	f->name = "BMP";
}

static void make_ppm(struct file *f)
{
	char head[64];

	put(f, head, (size_t)snprintf(head, sizeof head, "P6 # a comment\n%d\t%d\n255\n", W, H));
	put(f, pixels, sizeof pixels);
	f->name = "PPM";
}

enum { FILES = 8 };
static struct file files[FILES];

static enum sl_err decode(const uint8_t *bytes, size_t len, struct sl_value *out, struct sl_fail *fail)
{
	uint8_t *copy = calloc(len ? len : 1, 1); /* of the exact size: sanitizers find reads beyond it */
	enum sl_err err;

	if (len)
		memcpy(copy, bytes, len);
	*fail = (struct sl_fail){0};
	err = sl_picture_decode(out, copy, len, &(struct sl_picture_spec){.max_pixels = MAX_PIXELS}, &room, fail);
	free(copy);
	if (err)
		assert_true(fail->text[0] && !strchr(fail->text, '\n'));
	return err;
}

static void whole_files_are_read(void **state)
{
	for (int i = 0; i < FILES; i++) {
		struct sl_value v;
		struct sl_fail fail;
		int64_t difference = 0;

		if (decode(files[i].bytes, files[i].len, &v, &fail) != SL_OK)
			fail_msg("%s: %s", files[i].name, fail.text);
		assert_true(v.dim[0] == H && v.dim[1] == W && v.dim[2] == 3);
		for (size_t k = 0; k < sizeof pixels; k++)
			difference += abs(((const uint8_t *)v.data)[k] - pixels[k]);
		/* JPEG and WebP are lossy */
		assert_true(difference <= (i < 2 || i == 3 ? (int64_t)sizeof pixels * 12 : 0));
	}
}

static void decode_as(struct sl_value *out, const struct file *f, struct sl_picture_spec spec)
{
	struct sl_fail fail = {0};

	spec.max_pixels = MAX_PIXELS;
	if (sl_picture_decode(out, f->bytes, f->len, &spec, &room, &fail) != SL_OK)
		fail_msg("%s", fail.text);
}

static void tiles_of_16_bits_are_kept(void **state)
{
	for (int samples = 1; samples <= 3; samples += 2) {
		static struct file f;
		struct sl_value v;

		make_tiles(&f, samples);
		decode_as(&v, &f, (struct sl_picture_spec){.deep = true, .channels = samples});
		assert_true(v.deep && v.dim[0] == H && v.dim[1] == W && v.dim[2] == samples);
		for (int i = 0; i < H * W * samples; i++)
			assert_int_equal(((const float *)v.data)[i],
					 1000 * (i / samples / W) + 10 * (i / samples % W) + i % samples);
	}
}

/* A 16-bit PGM keeps its values. With `deep` bytes are multiplied by 257, and grey is the luma. */
static void values_of_16_bits_are_kept(void **state)
{
	static const float want[3] = {0x1234, 65535, 1}, bytes[3] = {10 * 257, 255 * 257, 76 * 257};
	static struct file f, rgb;
	struct sl_value v;

	put(&f, "P5 3 1 65535\n\x12\x34\xff\xff\x00\x01", 19);
	decode_as(&v, &f, (struct sl_picture_spec){.deep = true, .channels = 1});
	assert_true(v.deep && v.dim[0] == 1 && v.dim[1] == 3 && v.dim[2] == 1);
	assert_memory_equal(v.data, want, sizeof want);
	decode_as(&v, &f, (struct sl_picture_spec){.channels = 3});
	assert_true(!v.deep && v.dim[2] == 3);
	assert_int_equal(((const uint8_t *)v.data)[0], 0x1234 * 255 / 65535);
	put(&rgb, "P6 3 1 255\n\x0a\x0a\x0a\xff\xff\xff\xff\x00\x00", 20);
	decode_as(&v, &rgb, (struct sl_picture_spec){.deep = true, .channels = 1});
	assert_memory_equal(v.data, bytes, sizeof bytes);
	decode_as(&v, &rgb, (struct sl_picture_spec){.channels = 1});
	assert_memory_equal(v.data, "\x0a\x0a\x0a\xff\xff\xff\x4c\x4c\x4c", 9);
}

/* A PNM may have any largest value: results equal Pillow's round(value / most * 255), which rounds halves to even. */
static void values_of_a_pnm_are_rounded(void **state)
{
	static struct file seven, hundred;
	struct sl_value v;

	put(&seven, "P6 1 1 7\n\x01\x02\x06", 12);
	decode_as(&v, &seven, (struct sl_picture_spec){.channels = 3});
	assert_memory_equal(v.data, "\x24\x49\xdb", 3);
	put(&hundred, "P6 1 1 100\n\x32\x01\xff", 14);
	decode_as(&v, &hundred, (struct sl_picture_spec){.channels = 3});
	assert_memory_equal(v.data, "\x80\x03\xff", 3);
}

/* A JPEG whose EXIF data says that the camera was held sideways is turned upright. */
static void pictures_stand_upright(void **state)
{
	static const uint8_t exif[] = {0xff, 0xe1, 0, 34,   'E', 'x', 'i', 'f', 0, 0, 'M', 'M', 0, 42, 0, 0, 0, 8,
				       0,    1,    1, 0x12, 0,   3,   0,   0,   0, 1, 0,   6,   0, 0,  0, 0, 0, 0};
	static struct file plain, turned;
	struct sl_value a, b;
	uint8_t *lying = malloc(H * W * 3);

	assert_non_null(lying);
	make_jpeg(&plain, false);
	put(&turned, plain.bytes, 2);
	put(&turned, exif, sizeof exif);
	put(&turned, plain.bytes + 2, plain.len - 2);
	decode_as(&a, &turned, (struct sl_picture_spec){.exact = true});
	assert_true(a.dim[0] == H && a.dim[1] == W);
	memcpy(lying, a.data, H * W * 3);
	decode_as(&b, &turned, (struct sl_picture_spec){.upright = true});
	assert_true(b.dim[0] == W && b.dim[1] == H);
	for (int y = 0; y < W; y++)
		for (int x = 0; x < H; x++)
			assert_memory_equal((const uint8_t *)b.data + (y * H + x) * 3,
					    lying + ((H - 1 - x) * W + y) * 3, 3);
	for (size_t cut = 0; cut < sizeof exif + 4; cut++) { /* truncated EXIF data must not crash the decoder */
		struct sl_fail fail;
		const struct sl_picture_spec spec = {.max_pixels = MAX_PIXELS, .upright = true};

		(void)!sl_picture_decode(&b, turned.bytes, cut, &spec, &room, &fail);
	}
	free(lying);
}

/* EXIF data of orientation 6, of the given type: 3, a number of 16 bits, or 4, of 32, which some programs write. */
static void put_orientation(struct file *f, uint8_t type)
{
	put(f, "II*\0\10\0\0\0\1\0\22\1", 12);
	put(f, (uint8_t[]){type, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0}, 14);
}

static int orientation_of(const struct file *f)
{
	return sl_picture_orientation(f->bytes, f->len, true);
}

static void an_orientation_may_have_32_bits(void **state)
{
	static struct file f;

	for (uint8_t type = 3; type <= 4; type++) {
		f.len = 0;
		put_orientation(&f, type);
		assert_int_equal(orientation_of(&f), 6);
	}
}

/* Any number of bytes 0xff may stand in front of a JPEG's marker (ITU-T T.81, B.1.1.2). */
static void exif_may_follow_fill_bytes(void **state)
{
	static struct file f;

	put(&f, "\xff\xd8\xff\xff\xff\xe1\0\42Exif\0\0", 14);
	put_orientation(&f, 3);
	assert_int_equal(orientation_of(&f), 6);
	for (size_t n = 0; n < 8; n++) /* nothing but such bytes */
		assert_int_equal(sl_picture_orientation((const uint8_t *)"\xff\xd8\xff\xff\xff\xff\xff\xff", n, true),
				 1);
}

/* Programs such as exiftool write EXIF data behind a PNG's pixels, which may be thousands of chunks. */
static void exif_may_follow_many_chunks_of_pixels(void **state)
{
	static struct file f;

	put(&f, "\x89PNG\r\n\x1a\n", 8);
	for (int i = 0; i < 4000; i++)
		put(&f, "\0\0\0\0IDAT\0\0\0\0", 12);
	put(&f, "\0\0\0\32eXIf", 8);
	put_orientation(&f, 3);
	assert_int_equal(orientation_of(&f), 6);
}

/* A PNG's chunk of text: its keyword, what stands between, and the text, packed or not. */
static void put_text(struct file *f, const char *name, const char *between, size_t n, const char *text, bool packed)
{
	uint8_t out[4096];
	uLongf len = sizeof out;
	const char *keyword = strchr(text, '|') + 1, *body = strchr(keyword, '|') + 1;
	const size_t word = (size_t)(body - keyword - 1);

	assert_int_equal(compress2(out, &len, (const Bytef *)body, strlen(body), 9), Z_OK);
	if (!packed)
		memcpy(out, body, len = strlen(body));
	put(f, (uint8_t[]){0, 0, (uint8_t)((word + 1 + n + len) >> 8), (uint8_t)(word + 1 + n + len)}, 4);
	put(f, name, 4);
	put(f, keyword, word);
	put(f, "", 1);
	put(f, between, n);
	put(f, out, len);
	put(f, "crc.", 4);
}

/* The texts in which ImageMagick and others keep EXIF, and XMP, packed and not; the numbers are Pillow's
 * (torchvision_live.py). */
static void a_png_may_say_its_orientation_in_a_text(void **state)
{
#define RAW "Raw profile type exif|\nexif\n      32\n457869660000"
	static const char *const text[] = {
		"6|" RAW "\n49492a00080000000100120103000100\n0000060000000000000000\n",
		"8|" RAW "4D4D002A0000000800010112000300000001000800000000\n0000",
		"1|" RAW "49492a000800000001000f0103000100000006000000",
		"1|" RAW "49492a0008000000010012010300010000000900000000000000",
		"3|XML:com.adobe.xmp|<rdf:Description tiff:OrientationX=\"5\" tiff:Orientation=\"3\"/>",
		"5|XML:com.adobe.xmp|<tiff:Orientation>5</tiff:Orientation>",
		"1|XML:com.adobe.xmp|<tiff:Orientation>9</tiff:Orientation>",
		"1|XML:com.adobe.xmp|<tiff:Orientation>",
		"1|XML:com.adobe.xmp|tiff:Orientation=\"",
		"1|Raw profile type xmp|tiff:Orientation=\"6",
	};
	static const struct {
		const char *name, *between;
		size_t n;
		bool packed;
	} kind[] = {{"tEXt", "", 0, false},
		    {"zTXt", "", 1, true},
		    {"iTXt", "\0\0en\0title", 11, false},
		    {"iTXt", "\1\0\0", 4, true}};
	static struct file f;

	for (size_t t = 0; t < sizeof text / sizeof *text; t++)
		for (size_t k = 0; k < sizeof kind / sizeof *kind; k++) {
			f.len = 0;
			put(&f, "\x89PNG\r\n\x1a\n", 8);
			put(&f, "\0\0\0\0IDAT\0\0\0\0", 12);
			put_text(&f, kind[k].name, kind[k].between, kind[k].n, text[t], kind[k].packed);
			assert_int_equal(orientation_of(&f), text[t][0] - '0');
			for (size_t n = 0; n < f.len; n++) /* any end, and any byte, is harmless */
				(void)!sl_picture_orientation(f.bytes, n, true);
		}
	f.len = 0;
	put(&f, "\x89PNG\r\n\x1a\n", 8);
	put_text(&f, "iTXt", "\0\0\0", 4, text[4], false);
	put_text(&f, "zTXt", "", 1, text[0], true);
	assert_int_equal(orientation_of(&f), 6); /* EXIF counts before XMP */
	put(&f, "\0\0\0\32eXIf", 8);
	put_orientation(&f, 3);
	assert_int_equal(orientation_of(&f), 6);
}

/* A TIFF is turned as its orientation tag says, at 8 and at 16 bits, as Pillow does. */
static void a_tiff_stands_upright(void **state)
{
	static struct file f;
	struct sl_value v;
	struct sl_fail fail;

	for (int deep = 0; deep < 2; deep++) {
		f.len = 0;
		make_turned_tiff(&f, ORIENTATION_RIGHTTOP, SAMPLEFORMAT_UINT);
		decode_as(&v, &f, (struct sl_picture_spec){.deep = deep, .channels = 3});
		assert_true(v.dim[0] == W && v.dim[1] == H);
		for (int i = 0; i < W * H * 3; i++) {
			const int y = i / 3 / H, x = i / 3 % H;
			const uint8_t lies = pixels[((H - 1 - x) * W + y) * 3 + i % 3];

			assert_true(deep ? ((const float *)v.data)[i] == 257.0f * lies
					 : ((const uint8_t *)v.data)[i] == lies);
		}
	}
	make_turned_tiff(&f, ORIENTATION_TOPLEFT, SAMPLEFORMAT_INT);
	assert_int_equal(decode(f.bytes, f.len, &v, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "its samples are signed"));
}

static void make_lines(struct file *f, int bits, int photo, int samples, int extra, const void *line, int compression)
{
	char path[24];
	TIFF *tiff = begin_tiff(path, bits, samples);
	uint16_t kinds[4] = {(uint16_t)extra, EXTRASAMPLE_UNSPECIFIED};

	f->len = 0;
	TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, photo);
	TIFFSetField(tiff, TIFFTAG_COMPRESSION, compression);
	TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 2);
	TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 1);
	TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, samples - (photo == PHOTOMETRIC_RGB ? 3 : 1), kinds);
	assert_int_equal(TIFFWriteScanline(tiff, (void *)(uintptr_t)line, 0, 0), 1);
	end_tiff(f, tiff, path);
}

/* Grey with two further samples is grey: at 16 bits as at 8. */
static void further_samples_are_no_colours(void **state)
{
	static const uint16_t line[6] = {1000, 2000, 3000, 65535, 0, 500};
	static const float want[2] = {1000, 65535};
	static struct file f;
	struct sl_value v;

	make_lines(&f, 16, PHOTOMETRIC_MINISBLACK, 3, EXTRASAMPLE_UNSPECIFIED, line, COMPRESSION_LZW);
	decode_as(&v, &f, (struct sl_picture_spec){.deep = true, .channels = 1});
	assert_memory_equal(v.data, want, sizeof want);
	decode_as(&v, &f, (struct sl_picture_spec){.channels = 3});
	assert_memory_equal(v.data, "\x03\x03\x03\xff\xff\xff", 6);
}

/* Where colours are multiplied by alpha, as macOS writes them, they are divided by it: Pillow's numbers. */
static void colours_are_divided_by_their_alpha(void **state)
{
	static const uint8_t line[8] = {100, 7, 0, 200, 9, 8, 7, 0};
	static const uint16_t deep[8] = {1000, 0, 32768, 32768, 9, 8, 7, 0};
	static const float want[6] = {1999, 0, 65535, 0, 0, 0};
	static struct file f;
	struct sl_value v;

	make_lines(&f, 8, PHOTOMETRIC_RGB, 4, EXTRASAMPLE_ASSOCALPHA, line, COMPRESSION_LZW);
	decode_as(&v, &f, (struct sl_picture_spec){.channels = 3});
	assert_memory_equal(v.data, "\x7f\x08\0\0\0\0", 6);
	make_lines(&f, 8, PHOTOMETRIC_RGB, 4, EXTRASAMPLE_UNASSALPHA, line, COMPRESSION_LZW);
	decode_as(&v, &f, (struct sl_picture_spec){.channels = 3});
	assert_memory_equal(v.data, "\x64\x07\0\x09\x08\x07", 6);
	make_lines(&f, 16, PHOTOMETRIC_RGB, 4, EXTRASAMPLE_ASSOCALPHA, deep, COMPRESSION_LZW);
	decode_as(&v, &f, (struct sl_picture_spec){.deep = true, .channels = 3});
	assert_memory_equal(v.data, want, sizeof want);
}

/* Of 16 bits a picture of bytes has the upper eight, as Pillow reads RGB, also where colours are multiplied by alpha.
 */
static void the_upper_bits_are_taken(void **state)
{
	static const uint16_t rgb[6] = {0x00ff, 0x7f80, 0xfeff, 0xffff, 0x01fe, 0x80ff};
	static const uint16_t rgba[8] = {0x40ff, 0, 0x80ff, 0x80ff, 9, 8, 7, 0};
	static struct file f;
	struct sl_value v;

	make_lines(&f, 16, PHOTOMETRIC_RGB, 3, EXTRASAMPLE_UNSPECIFIED, rgb, COMPRESSION_LZW);
	decode_as(&v, &f, (struct sl_picture_spec){.channels = 3});
	assert_memory_equal(v.data, "\0\x7f\xfe\xff\x01\x80", 6);
	make_lines(&f, 16, PHOTOMETRIC_RGB, 4, EXTRASAMPLE_ASSOCALPHA, rgba, COMPRESSION_LZW);
	decode_as(&v, &f, (struct sl_picture_spec){.channels = 3});
	assert_memory_equal(v.data, "\x7f\0\xff\0\0\0", 6);
}

static void every_cut_is_seen(void **state)
{
	for (int i = 0; i < FILES; i++)
		for (size_t n = 0; n < files[i].len; n++) {
			struct sl_value v;
			struct sl_fail fail;
			enum sl_err err = decode(files[i].bytes, n, &v, &fail);

			if (err != SL_ERR_DATA && !(err == SL_OK && files[i].ends_at && n >= files[i].ends_at))
				fail_msg("%s: %zu of %zu bytes: %s", files[i].name, n, files[i].len, sl_err_name(err));
		}
}

/* Damage is refused or changes pixels, but never ends the process. */
static void damage_is_harmless(void **state)
{
	int refused = 0, read = 0;

	for (int i = 0; i < FILES; i++)
		for (size_t at = 0; at < files[i].len; at += at < 200 ? 1 : 17)
			for (int bit = 0; bit < 8; bit += 3) {
				struct sl_value v;
				struct sl_fail fail;
				enum sl_err err;

				files[i].bytes[at] ^= (uint8_t)(1 << bit);
				err = decode(files[i].bytes, files[i].len, &v, &fail);
				files[i].bytes[at] ^= (uint8_t)(1 << bit);
				assert_true(err == SL_OK || err == SL_ERR_DATA);
				refused += err != SL_OK;
				read += err == SL_OK;
			}
	assert_true(refused > 100 && read > 100);
}

/* A few bytes that announce a picture larger than data.max_pixels: they are refused before memory is allocated. */
static void bombs_are_refused(void **state)
{
	static const uint8_t png[] = {0x89, 'P', 'N',  'G',  '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H',  'D', 'R',
				      0,    0,   0xff, 0xff, 0,    0,    0xff, 0xff, 8, 2, 0, 0,  0,   0xa2, 0,   0};
	static const uint8_t jpeg[] = {0xff, 0xd8, 0xff, 0xc0, 0, 17, 8,    0xc3, 0x50, 0xc3, 0x50, 3,  1,
				       0x11, 0,    2,    0x11, 0, 3,  0x11, 0,    0xff, 0xda, 0,    12, 3,
				       1,    0,    2,    0,    3, 0,  0,    63,   0,    0xff, 0xd9};
	struct sl_value v;
	struct sl_fail fail;

	sl_room_close(&room);
	assert_int_equal(decode((const uint8_t *)"P6 60000 60000 255 ", 19, &v, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "60000 x 60000 pixels are too many: data.max_pixels is 1048576"));
	assert_int_equal(decode((const uint8_t *)"P6 99999999 99999999 255 ", 25, &v, &fail), SL_ERR_DATA);
	assert_int_equal(decode(jpeg, sizeof jpeg, &v, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "50000 x 50000 pixels are too many"));
	assert_int_equal(decode(png, sizeof png, &v, &fail), SL_ERR_DATA);
	files[6].bytes[20] = 0x40; /* BMP: 4 million pixels wide */
	assert_int_equal(decode(files[6].bytes, files[6].len, &v, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "are too many"));
	files[6].bytes[20] = 0;
	assert_int_equal(room.bytes, 0);
}

static void other_files_are_named(void **state)
{
	static const char *const other[][2] = {
		{"....ftypheic", ", but a HEIC picture or a video"},
		{"....ftypavif", ", but an AVIF picture"},
		{"\xef\xbb\xbf \n<!DOCTYPE html><html>", ", but an HTML page"},
		{"<HTML><head></head>", ", but an HTML page"},
		{"version https://git-lfs.github.com/spec/v1\noid", ", but a Git LFS pointer"},
	};
	struct sl_value v;
	struct sl_fail fail;

	assert_int_equal(decode((const uint8_t *)"", 0, &v, &fail), SL_ERR_DATA);
	assert_string_equal(fail.text, "the file is empty");
	assert_int_equal(decode((const uint8_t *)"GIF89a", 6, &v, &fail), SL_ERR_DATA);
	assert_string_equal(fail.text, "this is not a picture in JPEG, PNG, WebP, TIFF, BMP, PBM, PGM, PPM or DICOM, "
				       "but a GIF: save it as PNG");
	for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
		assert_int_equal(decode((const uint8_t *)other[i][0], strlen(other[i][0]), &v, &fail), SL_ERR_DATA);
		assert_non_null(strstr(fail.text, other[i][1]));
	}
	assert_int_equal(decode((const uint8_t *)"P6 0 4 255 ", 11, &v, &fail), SL_ERR_DATA);
	assert_int_equal(decode((const uint8_t *)"P6 4 4 70000 ", 13, &v, &fail), SL_ERR_DATA);
	assert_int_equal(decode((const uint8_t *)"RIFF    WAVE    ", 16, &v, &fail), SL_ERR_DATA);
}

/* Plain PNM and both PBM, with comments: Pillow's numbers. */
static void plain_pnm_is_read(void **state)
{
	static const struct {
		const char *file;
		uint8_t want[6];
		const char *refused;
	} rows[] = {
		{"P3 2 1 255\n1 2 3 # c\n4 5 255", {1, 2, 3, 4, 5, 255}, NULL},
		{"P2\n2 1\n4\n1 4", {64, 64, 64, 255, 255, 255}, NULL},
		{"P1 2 1\n01", {255, 255, 255, 0, 0, 0}, NULL},
		{"P4 2 1\n\x40", {255, 255, 255, 0, 0, 0}, NULL},
		{"P3 2 1 255\n1 2 3 4 5", {0}, "P3: value 6 is missing, or above 255"},
		{"P2 2 1 4\n1 5", {0}, "P2: value 2 is missing, or above 4"},
		{"P4 9 2\n\x40\x40\x40", {0}, "P4: value 18 is missing"},
		{"P1 2 1\n0 x", {0}, "P1: value 2 is missing"},
	};
	struct sl_value v;
	struct sl_fail fail;

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		const enum sl_err err = decode((const uint8_t *)rows[i].file, strlen(rows[i].file), &v, &fail);

		if (rows[i].refused ? err != SL_ERR_DATA || !strstr(fail.text, rows[i].refused)
				    : err || memcmp(v.data, rows[i].want, 6) != 0)
			fail_msg("%s: %d %s", rows[i].file, (int)err, fail.text);
	}
}

/* A BMP whose pixel offset leaves out the palette, as Pillow reads it. */
static void a_palette_may_be_left_out_of_the_offset(void **state)
{
	static const uint8_t colour[12] = {0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 0};
	static struct file f;
	struct sl_value v;

	put(&f, "BM", 2);
	put32(&f, 54 + 12 + 4);
	put32(&f, 0);
	put32(&f, 54);
	put32(&f, 40);
	put32(&f, 3);
	put32(&f, 1);
	put(&f, (uint8_t[]){1, 0, 8, 0}, 4);
	for (int i = 0; i < 4; i++)
		put32(&f, 0);
	put32(&f, 3);
	put32(&f, 0);
	put(&f, colour, sizeof colour);
	put(&f, (uint8_t[]){2, 0, 1, 0}, 4);
	decode_as(&v, &f, (struct sl_picture_spec){.channels = 3});
	assert_memory_equal(v.data, "\0\0\xff\xff\0\0\0\xff\0", 9);
}

static void make_big_tiff(struct file *f, const char *mode)
{
	char path[] = "/tmp/split-test-XXXXXX";
	const int fd = mkstemp(path);
	TIFF *tiff = TIFFFdOpen(fd, path, mode);

	assert_non_null(tiff);
	TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, W);
	TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, H);
	TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 8);
	TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 3);
	TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_RGB);
	TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 5);
	TIFFSetField(tiff, TIFFTAG_ORIENTATION, ORIENTATION_BOTRIGHT);
	for (uint32_t y = 0; y < H; y++)
		assert_int_equal(TIFFWriteScanline(tiff, pixels + (size_t)y * W * 3, y, 0), 1);
	f->len = 0;
	end_tiff(f, tiff, path);
}

/* BigTIFF in both orders of bytes, in several strips, and turned as its tag says. */
static void big_tiff_is_read(void **state)
{
	static struct file f;
	struct sl_value v;

	for (int i = 0; i < 4; i++) {
		make_big_tiff(&f, (const char *[]){"w8l", "w8b", "wl", "wb"}[i]);
		decode_as(&v, &f, (struct sl_picture_spec){.channels = 3});
		assert_true(v.dim[0] == H && v.dim[1] == W);
		for (int k = 0; k < H * W; k++)
			assert_memory_equal((const uint8_t *)v.data + 3 * k, pixels + 3 * (H * W - 1 - k), 3);
		for (size_t n = 0; n < f.len; n++) /* any end is harmless */
			(void)!sl_picture_orientation(f.bytes, n, true);
	}
}

static void lab_is_refused(void **state)
{
	static const uint8_t line[6] = {100, 1, 2, 50, 3, 4};
	static struct file f;
	struct sl_value v;
	struct sl_fail fail;
	char path[24];
	TIFF *tiff = begin_tiff(path, 8, 3);

	TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_CIELAB);
	TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 2);
	TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 1);
	assert_int_equal(TIFFWriteScanline(tiff, (void *)(uintptr_t)line, 0, 0), 1);
	end_tiff(&f, tiff, path);
	assert_int_equal(decode(f.bytes, f.len, &v, &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "its colours are CIE L*a*b*: save it as RGB"));
}

static char said[400];

static void hear(void *arg, const char *line, size_t len)
{
	snprintf(said, sizeof said, "%.*s", (int)len, line);
}

/* A PNG of 16 bits that holds 12 is told of; one that uses them all, or is black, is not. */
static void twelve_bits_in_sixteen_are_told_of(void **state)
{
	static const uint16_t most[] = {4095, 4096, 0};

	sl_log_set_sink(hear, NULL);
	for (int i = 0; i < 6; i++) {
		static struct file f;
		uint16_t value[4] = {0, most[i / 2], 0, 0};
		struct sl_value v;
		png_alloc_size_t n = MOST;
		png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
		png_infop info = png_create_info_struct(png);
		char path[] = "/tmp/split-test-XXXXXX";
		FILE *file = fdopen(mkstemp(path), "w+b");

		png_init_io(png, file);
		png_set_IHDR(png, info, 4, 1, 16, PNG_COLOR_TYPE_GRAY, 0, 0, 0);
		png_write_info(png, info);
		png_set_swap(png);
		png_write_row(png, (png_const_bytep)value);
		png_write_end(png, info);
		png_destroy_write_struct(&png, &info);
		rewind(file);
		f.len = fread(f.bytes, 1, n, file);
		fclose(file);
		unlink(path);
		decode_as(&v, &f, (struct sl_picture_spec){.deep = i % 2, .channels = 1});
		said[0] = '\0';
		sl_picture_warn_dim("scan.png", f.bytes, f.len, &v);
		assert_int_equal(i / 2 == 0, strstr(said, "scan.png: no sample of its 16 bits is above 4095") != NULL);
	}
	sl_log_set_sink(NULL, NULL);
}

static void names_end_as_torchvision_wants(void **state)
{
	assert_true(sl_picture_name("a.JPG") && sl_picture_name("b.tiff") && sl_picture_name(".webp"));
	assert_int_equal(sl_picture_stem("a.b.JPG"), 3);
	assert_int_equal(sl_picture_stem("1.2.840.7"), 9); /* DICOM without an ending */
	assert_false(sl_picture_name("a.gif") || sl_picture_name("jpg") || sl_picture_name("a.jpg.txt"));
}

static int make_files(void **state)
{
	for (int i = 0; i < H * W * 3; i++)
		pixels[i] = (uint8_t)(i / (3 * W) * 7 + i % (3 * W) / 3 * 3 + i % 3 * 40);
	make_jpeg(&files[0], false);
	make_jpeg(&files[1], true);
	make_png(&files[2]);
	make_webp(&files[3], false);
	make_webp(&files[4], true);
	make_tiff(&files[5]);
	make_bmp(&files[6]);
	make_ppm(&files[7]);
	return 0;
}

static int drop_room(void **state)
{
	sl_room_close(&room);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_files_are_read),
		cmocka_unit_test(values_of_16_bits_are_kept),
		cmocka_unit_test(values_of_a_pnm_are_rounded),
		cmocka_unit_test(tiles_of_16_bits_are_kept),
		cmocka_unit_test(pictures_stand_upright),
		cmocka_unit_test(an_orientation_may_have_32_bits),
		cmocka_unit_test(exif_may_follow_fill_bytes),
		cmocka_unit_test(exif_may_follow_many_chunks_of_pixels),
		cmocka_unit_test(a_png_may_say_its_orientation_in_a_text),
		cmocka_unit_test(a_tiff_stands_upright),
		cmocka_unit_test(further_samples_are_no_colours),
		cmocka_unit_test(colours_are_divided_by_their_alpha),
		cmocka_unit_test(the_upper_bits_are_taken),
		cmocka_unit_test(every_cut_is_seen),
		cmocka_unit_test(damage_is_harmless),
		cmocka_unit_test(bombs_are_refused),
		cmocka_unit_test(other_files_are_named),
		cmocka_unit_test(plain_pnm_is_read),
		cmocka_unit_test(a_palette_may_be_left_out_of_the_offset),
		cmocka_unit_test(big_tiff_is_read),
		cmocka_unit_test(lab_is_refused),
		cmocka_unit_test(twelve_bits_in_sixteen_are_told_of),
		cmocka_unit_test(names_end_as_torchvision_wants),
	};

	return cmocka_run_group_tests(tests, make_files, drop_room);
}
