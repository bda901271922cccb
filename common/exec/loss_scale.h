/* Dynamic loss scaling. Gradients in half precision are computed times a power of two, so that small ones do not
 * vanish. A step whose gradients overflow is skipped. See Micikevicius et al., Mixed Precision Training, 2018; the
 * constants are those of torch.cuda.amp.GradScaler. The state changes once a step, when it is applied or skipped, as
 * part of the step's transaction: a step that is run again finds the same scale. Plain data; any thread. */
#ifndef SL_EXEC_LOSS_SCALE_H
#define SL_EXEC_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

#define SL_LOSS_SCALE_FIRST 0x1p16f
#define SL_LOSS_SCALE_LEAST 0x1p-14f
#define SL_LOSS_SCALE_MOST  0x1p24f
enum { SL_LOSS_SCALE_STEPS = 2000 }; /* the scale doubles after so many applied steps without a skipped one */

struct sl_loss_scale {
	float scale;   /* a power of two, LEAST to MOST; 1 if the precision needs no scaling */
	uint32_t good; /* applied steps since it last changed, below STEPS */
};

static inline struct sl_loss_scale sl_loss_scale_first(void)
{
	return (struct sl_loss_scale){SL_LOSS_SCALE_FIRST, 0};
}

/* The state after an applied step; after a skipped one. */
struct sl_loss_scale sl_loss_scale_applied(struct sl_loss_scale s);
struct sl_loss_scale sl_loss_scale_skipped(struct sl_loss_scale s);
/* Whether the two functions above can lead to this state. For states that are read from a file. */
bool sl_loss_scale_valid(struct sl_loss_scale s);

/* Converts the state to two floats for a checkpoint, and back. Reading returns false, and leaves *s, if they are not
 * valid. */
void sl_loss_scale_write(struct sl_loss_scale s, float out[2]);
bool sl_loss_scale_read(struct sl_loss_scale *s, const float in[2]);

#endif
