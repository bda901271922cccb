/* Rows of volumes: a U-Net of two levels, and cases as NIfTI with masks. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "client/data/nifti.h"
#include "common/weights/safetensors.h"
#include "tests/sim/sim.h"

enum { DEPTH = 7, SIDE = 10, VOXELS = DEPTH * SIDE * SIDE };

static const char graph[] = "graph 1\n"
			    "in image f32 R[32,8,1]\n"
			    "in label i32 R[32,8]\n"
			    "param a.weight [2,3,3,3] zero\n"
			    "param b.weight [4,3,3,6] zero\n"
			    "param c.weight [4,2,2,4] zero\n"
			    "param d.weight [2,1,1,4] zero\n"
			    "node a0 window %0 slices=4 k=3 pad=1\n"
			    "node a conv2d %2 &0 pad=1 slices=4\n"
			    "node a1 act %3\n"
			    "node b0 window %4 slices=4 k=3 stride=2 pad=1\n"
			    "node b conv2d %5 &1 stride=2 pad=1 slices=2\n"
			    "node b1 act %6\n"
			    "node c0 convt2d %7 &2 stride=2 slices=2\n"
			    "node c window %8 slices=2 k=2 stride=2 back=4\n"
			    "node j concat %4 %9\n"
			    "node d conv2d %10 &3 slices=4\n"
			    "node loss xent %11 %1\n"
			    "out loss %12\n";

static uint32_t drawn(void)
{
	static uint32_t seed = 1;

	return (seed = seed * 1664525u + 1013904223u) >> 8;
}

static void check(enum sl_err err, const struct sl_fail *fail)
{
	if (err) {
		fprintf(stderr, "sim: %s\n", fail->text);
		exit(2);
	}
}

static void write_file(const char *folder, const char *part, int k, const uint8_t voxel[VOXELS])
{
	const struct sl_nifti_array volume = {
		.dim = {SIDE, SIDE, DEPTH}, .affine.m = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}, .byte = voxel};
	struct sl_fail fail;
	char path[64];

	mkdir(folder, 0777);
	snprintf(path, sizeof path, "%s/%s", folder, part);
	mkdir(path, 0777);
	snprintf(path, sizeof path, "%s/%s/%d.nii", folder, part, k);
	check(sl_nifti_write(path, &volume, &fail), &fail);
}

/* A bright cuboid in noise. */
static void write_case(const char *part, int k)
{
	uint8_t voxel[VOXELS], mask[VOXELS];

	for (int i = 0; i < VOXELS; i++) {
		mask[i] = i / SIDE / SIDE > k && i / SIDE % SIDE > 1 && i % SIDE < 7;
		voxel[i] = (uint8_t)(60 * mask[i] + 20 + drawn() % 80);
	}
	write_file("volumes", part, k, voxel);
	write_file("volumes/masks", part, k, mask);
}

void sim_volumes_make(void)
{
	static float value[54 + 216 + 64 + 8];
	const struct sl_st_item item[] = {{"a.weight", "F32", 4, {2, 3, 3, 3}, value},
					  {"b.weight", "F32", 4, {4, 3, 3, 6}, value + 54},
					  {"c.weight", "F32", 4, {4, 2, 2, 4}, value + 270},
					  {"d.weight", "F32", 4, {2, 1, 1, 4}, value + 334}};
	const struct sl_st_note note[] = {{"split.graph", graph}, {"split.network", "{\"depth\": [4, 4]}"}};
	struct sl_fail fail;

	for (size_t i = 0; i < sizeof value / sizeof value[0]; i++)
		value[i] = (float)drawn() / (1 << 25) - 0.25f;
	check(sl_st_write("volumes.safetensors", item, 4, note, 2, SL_FP_NONE, &fail), &fail);
	for (int k = 0; k < 3; k++)
		write_case(k < 2 ? "train" : "test", k);
}
