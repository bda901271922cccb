/* Volumes for training: how the files of a case are prepared, once, and the file that this makes in data.cache.
 * A case has one or more sequences, which become channels, and a mask. All have one grid. Preparation turns the axes to
 * the world's, cuts off what is background in all sequences and in the mask, resamples (trilinear; masks by the nearest
 * voxel), scales by data.intensity, and keeps 16-bit floats. */
#ifndef SL_CLIENT_DATA_VOLUME_H
#define SL_CLIENT_DATA_VOLUME_H

#include "client/data/nifti.h"
#include "client/data/transform_step.h"
#include "common/conf/conf.h"

enum { SL_VOLUME_CHANNELS = 16, SL_VOLUME_CLASSES = 256, SL_VOLUME_PLACES = 10000, SL_VOLUME_STEPS = 16 };

/* D, H and W are depth, height and width: the three axes of all below, in this order. */
struct sl_volume_spec {
	double spacing[3]; /* mm; 0: as the files have them */
	bool xyz;          /* data.axes */
	struct sl_conf_intensity intensity;
	int64_t patch[3]; /* data.patch; or with `whole` data.size */
	bool whole;       /* a sample is a case with a class, cropped or padded about its centre; else a patch */
	int patches;      /* of a case, in an epoch */
	double foreground;
	const char *cache;                /* the folder of prepared cases; "": there is none, for prediction */
	const char (*step)[SL_CONF_TEXT]; /* [steps], of training: data.transforms */
	int steps;
	bool cases;    /* for prediction: samples are whole cases */
	bool predicts; /* for prediction, with `whole`: cases are prepared when they are read, as those of the user */
};

/* The files of a case. */
struct sl_volume_files {
	const char *name; /* of the case, for messages */
	int n;            /* sequences */
	char path[SL_VOLUME_CHANNELS][PATH_MAX];
	char mask[PATH_MAX]; /* "": it has none, and is background */
};

/* What is known of a prepared case, at the start of its file. Behind it are voxels [D, H, W, channels] of 16-bit
 * floats, the mask [D, H, W] of bytes and, at the next multiple of 4 bytes, places. */
struct sl_volume_head {
	char magic[8];
	uint64_t hash;                      /* of the steps, and of size and time of each file */
	int64_t dim[3], channels;           /* of what is prepared */
	int64_t whole[3], crop[3], kept[3]; /* sizes before the cut; where it began, and how large it is */
	struct sl_world world;              /* of the prepared voxels */
	struct sl_world of_whole;           /* of the voxels before the cut, with axes turned */
	uint32_t unplaced, disputed;        /* the file's affine: there is none; sform and qform differ */
	uint64_t images, contents; /* hashes of the sequences' voxels; of these, the mask, the grid and the steps */
	uint64_t kept_hash;        /* of all bytes behind this head, and of the head with 0 here */
	/* Voxels of each class in the mask, and places: how many of them, spread evenly, are named as a whole number,
	 * place = (d H + h) W + w. */
	int64_t voxels[SL_VOLUME_CLASSES], places[SL_VOLUME_CLASSES];
};

/* A prepared case, mapped from its file. Constant: any thread may use it. */
struct sl_volume {
	const struct sl_volume_head *head;
	const uint16_t *voxel;
	const uint8_t *mask;
	const uint32_t *place;
	size_t bytes; /* of the map */
};

/* What leads from a prepared case back to its files. */
struct sl_volume_back {
	struct sl_nifti file; /* of the first sequence; voxel is NULL */
	struct sl_nifti_view view;
	double step[3]; /* from voxel to voxel of the prepared case, in voxels of the file */
};

/* Along one axis, for each voxel that is made: between which two it lies, and how near to the second. */
struct sl_between {
	int64_t low, high, nearest;
	float share;
};

enum { SL_VOLUME_QUADS = 16 }; /* a sample's random numbers of one stream: 64 words */
#define SL_VOLUME_MAGIC "slvol 4"
#define SL_VOLUME_SMALL (1.0 / 64) /* of data.size: a case that fills less is doubtful */
/* Of a class in a mask, with %d for it, for the network's last one, and for SL_LEARN_IGNORED. */
#define SL_VOLUME_CLASS "has class %d: the network has the classes 0 to %d, and %d is not counted"

/* volume_doubt.c: warns of a file's affine. */
void sl_volume_warn_of_place(bool unplaced, bool disputed, const char *path);
/* The hash of the steps alone. */
uint64_t sl_volume_spec_hash(const struct sl_volume_spec *spec);
/* The hash of a case's steps and files. NOINPUT: a file is not there. */
enum sl_err sl_volume_hash(uint64_t *out, const struct sl_volume_spec *spec, const struct sl_volume_files *files,
			   struct sl_fail *fail) SL_MUST_CHECK;
/* Reads the headers of a case, and checks that they agree. dim: its size after resampling, as if nothing were cut off.
 * Errors name the file. DATA, NOINPUT, IO. */
enum sl_err sl_volume_check(int64_t dim[3], const struct sl_volume_spec *spec, const struct sl_volume_files *files,
			    struct sl_fail *fail) SL_MUST_CHECK;
/* Prepares a case and writes its file, which appears whole or not at all. Takes memory for all of its voxels as floats,
 * and for those of what it makes. `path`.tmp is used: only one process at a time may prepare it. Errors name the file.
 * DATA: a file is damaged, grids differ, a mask has numbers that are not 0 … 255, all is background, or all voxels that
 * are made have one number; NOINPUT, IO, CANTCREATE, NOMEM. The caller warns of the head's doubts. */
enum sl_err sl_volume_prepare(const char *path, uint64_t hash, const struct sl_volume_spec *spec,
			      const struct sl_volume_files *files, struct sl_fail *fail) SL_MUST_CHECK;
/* Prepares a case in memory, without its mask: it decides nothing. Errors as above. */
enum sl_err sl_volume_prepare_here(struct sl_volume *out, struct sl_volume_back *back,
				   const struct sl_volume_spec *spec, const struct sl_volume_files *files,
				   struct sl_fail *fail) SL_MUST_CHECK;
/* Reads the mask of a case, as large as its files. A voxel is a class below `classes`, or SL_LEARN_IGNORED. Errors as
 * above. */
enum sl_err sl_volume_read_mask(uint8_t **out, const struct sl_volume_back *back, const struct sl_volume_files *files,
				int classes, struct sl_fail *fail) SL_MUST_CHECK;
/* Lays n voxels, a `step` apart, over `side` others whose edge is the same; those outside lie at the edge. */
void sl_between_lay(struct sl_between *out, int64_t n, double step, int64_t side);
/* Maps a prepared case. NOINPUT: there is none, or it has another hash, is damaged, or belongs to another user. */
enum sl_err sl_volume_map(struct sl_volume *out, const char *path, uint64_t hash, struct sl_fail *fail) SL_MUST_CHECK;
/* Whether a mapped case is what was written: reads all of it. */
bool sl_volume_is_sound(const struct sl_volume *volume);
void sl_volume_close(struct sl_volume *volume); /* idempotent; a zeroed one is fine */

/* Where patches of a size begin: before 0, if the volume is smaller on that axis. The first fits around voxel `at`, as
 * near to its middle as the volume's edges allow. */
int64_t sl_patch_around(int64_t at, int64_t patch, int64_t side);
/* How many patches, side by side, it takes to cover an axis; and where patch i of these begins. */
int64_t sl_patch_count(int64_t patch, int64_t side);
int64_t sl_patch_begin(int64_t i, int64_t patch, int64_t side);
/* Where the patch of a training sample begins, as it is drawn; and where patch i of those that cover a case does. */
struct sl_sample_draw;
void sl_patch_draw(const struct sl_volume *volume, const struct sl_volume_spec *spec, int classes,
		   const struct sl_sample_draw *draw, int64_t sample, int64_t at[3]);
void sl_patch_place(const struct sl_volume *volume, const struct sl_volume_spec *spec, int64_t i, int64_t at[3]);
/* What a voxel outside of the volume has. */
float sl_volume_background(const struct sl_conf_intensity *intensity);
/* voxel [D, H, W, channels] and mask [D, H, W], which may be NULL, = the patch that begins at `at`. Outside of the
 * volume there is background, which is not counted. DATA: the mask has a class that is neither below `classes` nor
 * SL_LEARN_IGNORED. */
enum sl_err sl_volume_cut(const struct sl_volume *volume, const struct sl_volume_spec *spec, const int64_t at[3],
			  int classes, float *voxel, int32_t *mask, struct sl_fail *fail) SL_MUST_CHECK;

#endif
