/* AMX's instructions, in assembly: gcc 12's intrinsics do not tell the compiler that they read memory. */
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernels/cpu/amx.h"

enum { TILE_BYTES = 64, TILE_HIGH = 16, TILE_WIDE = 16 };

/* Palette 1: rows, and bytes of a row, of each of the eight tiles. */
struct config {
	uint8_t palette, start_row, reserved[14];
	uint16_t bytes[16];
	uint8_t rows[16];
};

/* Tiles 0 to 3 are the result's quarters, 4 and 5 a's halves, 6 and 7 b's. A tile of no rows is never used. */
static void configure(int rows, int width)
{
	const int high[2] = {rows < TILE_HIGH ? rows : TILE_HIGH, rows - TILE_HIGH};
	const int wide[2] = {width < TILE_WIDE ? width : TILE_WIDE, width - TILE_WIDE};
	struct config to = {.palette = 1};

	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 2 && high[i] > 0 && wide[j] > 0; j++) {
			to.rows[2 * i + j] = to.rows[4 + i] = (uint8_t)high[i];
			to.bytes[2 * i + j] = to.bytes[6 + j] = (uint16_t)(wide[j] * 4);
			to.bytes[4 + i] = TILE_BYTES;
			to.rows[6 + j] = SL_AMX_PAIRS;
		}
	__asm__ volatile("ldtilecfg %0" : : "m"(to));
}

#define LOAD(t, from, floats) \
	__asm__ volatile("tileloadd (%0,%1,1), %%tmm" #t : : "r"(from), "r"((int64_t)(floats)*4) : "memory")
#define STORE(t, to, floats) \
	__asm__ volatile("tilestored %%tmm" #t ", (%0,%1,1)" : : "r"(to), "r"((int64_t)(floats)*4) : "memory")
#define PRODUCT(c, a, b) __asm__ volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #c : :)

#define QUARTERS(OP)                                        \
	do {                                                \
		OP(0, c, SL_AMX_WIDE);                      \
		if (wide)                                   \
			OP(1, c + TILE_WIDE, SL_AMX_WIDE);  \
		if (tall)                                   \
			OP(2, c2, SL_AMX_WIDE);             \
		if (tall && wide)                           \
			OP(3, c2 + TILE_WIDE, SL_AMX_WIDE); \
	} while (0)

static void strip(float *c, const float *a, int64_t lda, int rows, const float *b, int width, int64_t blocks)
{
	const bool tall = rows > TILE_HIGH, wide = width > TILE_WIDE;
	float *const c2 = c + TILE_HIGH * SL_AMX_WIDE;

	configure(rows, width);
	QUARTERS(LOAD);
	for (; blocks > 0; blocks--, a += SL_AMX_PAIRS, b += SL_AMX_PAIRS * width) {
		LOAD(4, a, lda);
		LOAD(6, b, width);
		PRODUCT(0, 4, 6);
		if (wide) {
			LOAD(7, b + TILE_WIDE, width);
			PRODUCT(1, 4, 7);
		}
		if (tall) {
			LOAD(5, a + TILE_HIGH * lda, lda);
			PRODUCT(2, 5, 6);
		}
		if (tall && wide)
			PRODUCT(3, 5, 7);
	}
	QUARTERS(STORE);
	__asm__ volatile("tilerelease");
}

/* CPUID says that the instructions exist, XCR0 that the kernel saves their registers. A process may use these after it
 * has asked; threads that it starts later inherit that. */
static bool is_allowed(void)
{
	enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, OSXSAVE = 1 << 27 };
	enum { REQUEST = 0x1023 /* ARCH_REQ_XCOMP_PERM */, TILE_DATA = 18, TILE_STATE = 3 << 17 };
	unsigned eax, ebx, ecx, edx, xcr0, high;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & OSXSAVE))
		return false;
	if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(edx & AMX_BF16) || !(edx & AMX_TILE))
		return false;
	__asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
	return (xcr0 & TILE_STATE) == TILE_STATE && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

sl_amx_strip *sl_amx_tiles(void)
{
	return is_allowed() ? strip : NULL;
}
