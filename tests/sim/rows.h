/* The configs that are simulated: ROW(name, settings over those of check.c's client.yaml, members of a group or 0).
 * OTHER(name, settings, members, enum sim_oracle, kinds of faults that it does not have); WITH: and those of SIM_RARE
 * that it has. */
ROW("codecs", "", 0)
ROW("plain", "codec.head_act=none codec.mid_act=none codec.mid_grad=none codec.head_grad=none", 0)
ROW("momentum", "train.optimizer.kind=sgd train.optimizer.momentum=0.9", 0)
ROW("accumulate", "train.accumulate=2 train.ema=0.9", 0)
ROW("clip", "train.clip_norm=0.5", 0)
ROW("best", "train.keep_best=true", 0)
ROW("tensorboard", "log.tensorboard=true", 0)
ROW("audit", "train.audit.every=3", 0)
ROW("audit-all", "train.audit.every=1 train.clip_norm=0.5 train.keep_best=true", 0)
ROW("audit-skip",
    "model.network=../nan.safetensors head_end=a1 tail_begin=d train.freeze=huge.*,none.* train.on_nan=skip "
    "train.audit.every=1",
    0)
ROW("no-checkpoints", "train.checkpoint_every=0", 0)
ROW("every-step", "train.checkpoint_every=1", 0)
ROW("schedule", "train.schedule.kind=cosine train.schedule.warmup_epochs=0.5", 0)
ROW("stop", "train.stop.patience=1 train.epochs=6", 0)
ROW("random", "codec.head_act=randomk:0.5 codec.mid_act=quant:4", 0)
ROW("one-chunk", "train.chunks=1", 0)
ROW("exit", "train.on_checkpoint_error=exit", 0)
ROW("freeze", "train.freeze=layer1.*", 0)
ROW("sync", "share.least=1", 3)
ROW("rounds", "share.least=1 share.mode=rounds share.round=2", 3)
ROW("serial", "share.least=1 share.mode=serial", 3)
ROW("labels", "train.label_smoothing=0.1 train.mixup=0.2 train.drop_last=true train.chunk_loss=sum", 0)
ROW("nesterov", "train.optimizer.kind=sgd train.optimizer.nesterov=true train.optimizer.weight_decay=0.01", 0)
ROW("limit", "train.max_steps=23 train.eval_every=2 train.class_weights=balanced", 0)
ROW("steps", "train.schedule.kind=step train.schedule.every_epochs=1 train.schedule.gamma=0.5 train.schedule.by=epoch",
    0)
ROW("metric", "train.keep_best=true train.metrics=balanced_accuracy train.best_metric=balanced_accuracy", 0)
ROW("stop-loss", "train.stop.patience=1 train.stop.metric=loss train.stop.min_delta=0.01 train.epochs=6", 0)
ROW("private", "share.least=1 share.ends=private", 3)
ROW("ends", "share.least=1 codec.end_grad=topk:0.5,ef=true codec.end_mean=quant:8 share.layers=all", 3)
ROW("average", "share.least=1 share.mode=rounds share.round=3 share.moments=average", 3)
ROW("clip-sync", "share.least=1 train.clip_norm=0.5", 3)
ROW("clip-private", "share.least=1 share.ends=private train.clip_norm=0.5", 3)
ROW("clip-rounds", "share.least=1 share.mode=rounds share.round=2 train.clip_norm=0.5", 3)
OTHER("two-paths", "train.checkpoint_every=3", 0, SIM_RATES, 1u << SIM_FULL | 1u << SIM_IO_ERROR)
/* A run whose last state was not kept cannot be made longer. */
OTHER("longer", "", 0, SIM_LONGER, 1u << SIM_FULL | 1u << SIM_IO_ERROR | 1u << SIM_OLD_DISK | 1u << SIM_NEW_DISK)
OTHER("late", "share.least=0.5 share.quorum=2 share.patience_s=1 codec.head_act=quant:8 codec.head_grad=quant:8", 3,
      SIM_ABSENT, SIM_SPOILS_DISKS)
OTHER("late-sealed", "share.secret=../pair.key share.least=0.5 share.quorum=2 share.patience_s=1", 3, SIM_ABSENT,
      SIM_SPOILS_DISKS)
OTHER("late-private", "share.least=0.5 share.quorum=2 share.patience_s=1 share.ends=private", 3, SIM_ABSENT,
      SIM_ENDS_PROCESSES)
OTHER("come-and-go",
      "share.clients=4 share.quorum=2 share.least=0 share.wait_s=300 share.patience_s=1 codec.head_act=quant:8 "
      "codec.head_grad=quant:8",
      4, SIM_ABSENT, SIM_SPOILS_DISKS)
/* Absences of up to an hour. */
WITH("away",
     "share.wait_s=604800 share.least=0.8 share.quorum=2 codec.head_act=quant:8 codec.head_grad=quant:8 "
     "link.stall_s=600",
     3, SIM_ABSENT, SIM_SPOILS_DISKS, 1u << SIM_AWAY)
WITH("lost-files", "share.least=0.5 share.quorum=2 share.patience_s=1 codec.head_act=quant:8 codec.head_grad=quant:8",
     3, SIM_ABSENT, SIM_SPOILS_DISKS, 1u << SIM_LOSE)
WITH("claims", "share.least=0.5 share.quorum=2 share.patience_s=1 codec.head_act=quant:8 codec.head_grad=quant:8", 3,
     SIM_ABSENT, SIM_SPOILS_DISKS, 1u << SIM_CLAIM)
/* Nobody waits for a member that gets less than its part: the end has status 80 then, and only then. */
WITH("unmet",
     "share.least=0.9 share.unmet=go_on share.quorum=2 share.patience_s=1 codec.head_act=quant:8 "
     "codec.head_grad=quant:8",
     3, SIM_ABSENT, SIM_SPOILS_DISKS, 1u << SIM_AWAY)
OTHER("late-comer",
      "share.clients=3 share.quorum=2 share.least=0 share.wait_s=300 share.patience_s=1 codec.head_act=quant:8 "
      "codec.head_grad=quant:8",
      3, SIM_ABSENT, SIM_SPOILS_DISKS)
/* All members are stopped, and begin anew (--fresh). */
OTHER("fresh",
      "share.least=0.5 share.quorum=2 share.patience_s=1 share.wait_s=300 codec.head_act=quant:8 "
      "codec.head_grad=quant:8",
      3, SIM_ABSENT, SIM_SPOILS_DISKS)
OTHER("fresh-private", "share.least=0.5 share.quorum=2 share.patience_s=1 share.wait_s=300 share.ends=private", 3,
      SIM_ABSENT, SIM_SPOILS_DISKS)
ROW("zero", "share.least=1 share.mode=rounds share.round=3 share.ends=round share.moments=zero", 3)
ROW("unequal",
    "share.least=1 share.mode=rounds share.round=2 share.ends=private data.partition=dirichlet:2 "
    "train.max_steps=14",
    3)
ROW("turns", "share.least=1 share.mode=serial share.ends=private data.partition=dirichlet:2", 3)
OTHER("come-and-go-rounds",
      "share.clients=4 share.quorum=2 share.least=0 share.wait_s=300 share.patience_s=1 share.mode=rounds "
      "share.round=2 share.moments=average "
      "codec.head_act=quant:8 codec.head_grad=quant:8",
      4, SIM_ABSENT, SIM_SPOILS_DISKS)
/* A lost message on a link that stays up holds a script up for ever: it may take any time between two calls. */
OTHER("script", "", 0, SIM_SCRIPT, 1u << SIM_DROP)
/* A value that stays at home and crosses, too; and two that cross, one of which stays at home. */
ROW("homes", "head_end=a1 tail_begin=c2", 0)
ROW("several", "head_end=b1 tail_begin=c2 cut_values=2", 0)
ROW("files", "share.least=1 share.ends=private data.dir=../data-%m share.epoch_steps=10", 3)
OTHER("late-serial",
      "share.least=0.5 share.quorum=2 share.patience_s=1 share.mode=serial codec.head_act=quant:8 "
      "codec.head_grad=quant:8",
      3, SIM_ABSENT, SIM_SPOILS_DISKS)
OTHER("late-rounds",
      "share.least=0.5 share.quorum=2 share.patience_s=1 share.mode=rounds share.round=2 share.moments=average "
      "codec.head_act=quant:8 "
      "codec.head_grad=quant:8",
      3, SIM_ABSENT, SIM_SPOILS_DISKS)
/* What a late member did of a round stays in its own moments, or its own head and tail. */
OTHER("late-rounds-keep",
      "share.least=0.5 share.quorum=2 share.patience_s=1 share.mode=rounds share.round=3 share.moments=keep", 3,
      SIM_ABSENT, SIM_SPOILS_DISKS)
OTHER("late-rounds-own",
      "share.least=0.5 share.quorum=2 share.patience_s=1 share.mode=rounds share.round=3 share.ends=private", 3,
      SIM_ABSENT, SIM_SPOILS_DISKS)
ROW("vertical", "share.mode=vertical", 2)
/* Two members with an input each, and one with the labels and the third input. */
ROW("vertical-three", "share.mode=vertical model.network=../three.safetensors head_end=r1 tail_begin=d cut_values=3", 3)
ROW("clip-vertical", "share.mode=vertical train.clip_norm=0.5", 2)
ROW("clip-vertical-three",
    "share.mode=vertical model.network=../three.safetensors head_end=r1 tail_begin=d cut_values=3 train.clip_norm=0.5",
    3)
OTHER("come-and-go-private",
      "share.clients=4 share.quorum=2 share.least=0 share.wait_s=300 share.patience_s=1 share.ends=private", 4,
      SIM_ABSENT, SIM_ENDS_PROCESSES)
ROW("batches", "share.least=1 share.mode=serial data.dir=../data-%m data.like=../like.json share.batches=10,7,4", 3)
/* One client with three sources of data. */
ROW("sources",
    "model.network=../three.safetensors head_end=r1 tail_begin=d cut_values=3 data.dir=../named data.id=id "
    "data.inputs=more data.also=kind=csv,dir=../named,id=id,inputs=[left],-kind=csv,dir=../named,id=id,inputs=[right]",
    0)
/* What samples send is clipped and has noise. */
ROW("privacy", "privacy.clip=3 privacy.clip_grad=1 privacy.noise=2 privacy.key=../pair.key", 0)
/* The server lies about an evaluation or a norm, and is caught. No fault takes the lie from the link. */
WITH("liar",
     "train.audit.every=1 train.clip_norm=0.5 train.eval_every=1 codec.head_act=none codec.mid_act=none "
     "codec.mid_grad=none codec.head_grad=none",
     0, SIM_LOCAL, ~(1u << SIM_LIE | 1u << SIM_STAND | 1u << SIM_CLOCK_BACK), 1u << SIM_LIE)
/* Its SIMD level has other last bits, which an audit would take for a lie: it is refused with 78, never with 79. */
OTHER("level", "train.audit.every=3", 0, SIM_LOCAL, 0)
OTHER("moved", "", 0, SIM_LOCAL, SIM_LOSES_FILES)
/* A step with NaN is skipped, by the client or the server: the first batch of an optimizer step, or its last. */
ROW("skip",
    "model.network=../nan.safetensors head_end=a1 tail_begin=d train.freeze=huge.*,none.* train.on_nan=skip "
    "train.accumulate=2",
    0)
ROW("skip-head",
    "model.network=../nan.safetensors head_end=sum tail_begin=d train.freeze=huge.*,none.* train.on_nan=skip "
    "train.accumulate=3 train.ema=0.9",
    0)
/* Volumes, in one chunk and in four; one with a skip that stays at home, and codecs with state. */
#define VOLUMES                                                                                                     \
	"head_end=a1 model.network=../volumes.safetensors model.task=pixels data.kind=volumes data.dir=../volumes " \
	"data.patch=4,8,8 data.patches=20 data.intensity=ct:0,140 data.cache=../cache "                             \
	"data.transforms=RandomFlip(),RandomNoise(0.2) train.batch=4 "
ROW("volumes", VOLUMES "tail_begin=d train.chunks=1 train.loss=dice_ce codec=quant:8", 0)
ROW("volumes-home", VOLUMES "tail_begin=c0 train.chunks=4", 0)
#undef VOLUMES
/* A member's checkpoint reaches its disk some steps later. The group waits for ever, so that only its members find that
 * a message was lost. */
ROW("slow-sync", "share.least=1 share.wait_s=0", 3)
ROW("slow-serial", "share.least=1 share.mode=serial", 3)
ROW("slow-vertical", "share.mode=vertical model.network=../three.safetensors head_end=r1 tail_begin=d cut_values=3", 3)
