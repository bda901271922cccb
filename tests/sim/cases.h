/* Seeds that failed once: CASE(row, seed, faults that it needs, what it showed), or CASE_OF(row, seed, KINDS of faults,
 * FAULTS at most, faults that it needs, what it showed). `make sim` runs them first. */
CASE("rounds", 1249, "1,2,3", "a member kept a checkpoint of steps that its group had given up: status 78")
CASE("sync", 1752, "1", "a lost Welcome: its member waited for the group for ever")
CASE("sync", 360, "1,3,4,5,6", "a member that was stopped without a checkpoint took its run for done")
CASE("private", 3373, "2,4,6",
     "the checkpoint of a member's pause took the place of one that all others had: status 78")
CASE("late", 61, "4", "a member that died before its first checkpoint was refused, though its group had gone on")
CASE("late", 9, "1,2,3,4,6", "a server that died with such a member behind let its group wait for ever")
CASE("come-and-go", 58, "1,2,4,6", "a newcomer that the server's checkpoint did not have was refused")
CASE("come-and-go", 111, "1,2,3,4,5,6,7,8", "the same, where an earlier client had its seat")
CASE("late-rounds", 59, "1,3,4", "a step of the round under way stayed in the moments of a member that died in it")
CASE("late-rounds", 47, "1,2,3,4,5,6,7,8", "the others waited for ever for a member that was too far behind")
CASE("late-rounds", 93, "1,2,3,4,5,6,7,8", "a group went back further than to the checkpoint that all had")
CASE("late-rounds", 125, "1,2,3,4", "a group that went back forgot the means that a member behind it needed: status 78")
CASE("come-and-go-private", 2, "1,2,3,4,5,6,7,8", "a member that was behind waited for ever for others that were done")
CASE("batches", 6, "1,5,6",
     "a member that died behind its model, beside a server with a full disk: its group has ended")
CASE("turns", 87, "1,2,3,4,5",
     "a server with a full disk forgot who had left: the last member waited for them for ever")
CASE("sync", 563, "1,2", "a group that began anew behind its models had their weights for its first ones")
CASE("sync", 1050, "1,2",
     "a server with a full disk let a member go without a note of it: the others waited for it for ever")
CASE("come-and-go", 5376, "1,2,3,4,5",
     "a member came back behind others that were done, who had the heads and tails: it waited for ever")
CASE("come-and-go", 100061, "1,2,4,5", "the same, of one that had done no step yet")
CASE("late-serial", 100091, "1,2,3,4,5",
     "a server that was started again waited for ever for a member that is too far behind")
CASE("late-serial", 100134, "1,2,3,4,5,6,7,8", "the same, of a server that went on")
CASE("come-and-go", 100265, "1,2,4,5,6,8",
     "a member behind the others had done no step when the server died: status 78")
CASE("sync", 100444, "1,2,3,4,5,6",
     "a member began anew with its group, and took the model of its pause for that of a run that is done")
CASE("vertical", 200211, "1,2,3,4",
     "a member that had paused left a file of the step that the other had gone on from in memory alone, and dropped "
     "the one before")
CASE("audit", 203553, "1,2,3",
     "the simulator's: three links were lost in an audit, of which a client tells with status 79")
CASE("come-and-go-rounds", 209073, "1,2,3,4,5,6,7,8",
     "of members behind others that were done one was told so at a time: the last waited for these for ever")
CASE("come-and-go", 210882, "1,2,3", "members behind others that were done trained anew without them: status 0")
CASE("late", 101116, "1,4",
     "all links were lost, and with the group's memory its means: a member that had missed steps "
     "could not go on, status 78")
CASE("late-serial", 208637, "2,5,7", "the same")
CASE("late-rounds", 205208, "1,2,3", "the same, when a server stood still")
CASE("come-and-go-rounds", 204957, "1,2,3",
     "a member had missed the step of the newest checkpoint, which a server that was started again took for its state: "
     "status 78")
CASE("come-and-go-rounds", 100243, "1,2,5", "the same, with a server that was stopped")
CASE("average", 215039, "1,2,3,4,5",
     "a server with a full disk died before one member had its weights, and the group began anew: the others took "
     "their models for those of a done run, and it waited for ever")
CASE("vertical-three", 216297, "1,2,3,4,5,6,7",
     "a server whose disk had failed forgot the step that all held, and the files had no common one: status 78")
CASE("vertical", 244694, "1,2,3,4,5,6",
     "a member whose full disk took neither its last checkpoint nor its model told the server that both were there: "
     "the other ended, and it could not go on")
CASE("vertical-three", 301034, "1,2",
     "a member that was stopped in the last evaluation told the server that it was done; the others waited for it, and "
     "ended with status 78 when it came again")
CASE("clip-vertical-three", 310424, "1,2,3,4,5,6",
     "a full disk took a member's checkpoint, and it died in the next: the others had only newer ones")
CASE("stop", 403924, "2,3,5,6,7", "a run began anew behind the model of a pause, and died: it passed for done")
CASE("stop-loss", 409608, "1,2,3,4,5,6,7,8", "the same")
CASE("batches", 845242, "1,2,3,4",
     "a client whose clock had gone back came while its last link was ending: the server told it that link's number "
     "only at its next one, and it took itself for two processes")
CASE("turns", 853020, "1,2,3",
     "a member lost its link in the commit of a step with a checkpoint, and wrote none; the others dropped the one "
     "before")
CASE_OF("private", 510712, "FULL,KILL_DISK", 6, "1,2,3,4,5,6",
	"a server's full disk: a member had only its model, and took its run for done; the others waited for ever")
CASE("clip-sync", 811299, "1,2,3,4,5,7,8", "the same, after a power cut")
CASE_OF("vertical-three", 970302, "FULL,IO_ERROR,KILL_DISK,CUT,TERM,LATE", 8, "1,2,3,4,5,6,7,8",
	"a member stopped behind the last evaluation left a file from before it: it repeated it, and waited for others "
	"that were done")
CASE_OF("clip-vertical-three", 901012, "FULL,IO_ERROR,CUT,TERM", 8, "1,2,4,5",
	"a member's disk took its first checkpoint and then no other: it was refused, since the others had a file of "
	"a lost link")
CASE_OF("clip-vertical-three", 901012, "FULL,IO_ERROR,CUT,TERM", 8, "1,2,3,4",
	"a member's full disk never took its first checkpoint: the same")
CASE_OF("clip-vertical-three", 2401286, "FULL,IO_ERROR,CUT,TERM", 8, "1,2,3,6",
	"a client came again before the server had taken its last link out, and was not told of that link's epoch: its "
	"next link was refused, status 78")
CASE_OF("clip-vertical-three", 2401668, "FULL,IO_ERROR,CUT,TERM", 8, "1,3,4,6,7,8",
	"a second signal ended a client between the model of its pause, which had no checkpoint, and the summary: it "
	"passed for done")
CASE("clip-rounds", 842094, "1,2,3,4,6,7,8", "the same as private 510712, in rounds")
CASE("come-and-go-rounds", 874115, "1,2,3",
     "a newcomer waited for the head and tail of a member that was late, until the others were done; then it trained "
     "anew")
CASE("rounds", 2502624, "1,2,3,4,5,6,7,8",
     "a server lost its store as members ended: one that had not got its last weights waited for them for ever")
CASE("steps", 9103567, "1,2,3,4,5,6",
     "a client whose disk failed could not remove its checkpoints, and ended as one whose run is done: the server "
     "removed "
     "its own, and the next start went on from the client's: status 78")
CASE("late-rounds", 884665, "1,2,3,4,5,6",
     "a late member had caught up with the step to which all went back, in a later branch than the file's: status 78")
CASE("audit-skip", 82, "1,3,4,5,6",
     "an evaluation was repeated after the step behind it had been audited: an honest server was accused")
CASE("audit-all", 7500125, "1,2,3", "a step was repeated after the evaluation behind it: an honest server was accused")
CASE("late-sealed", 97, "1,2,3,6",
     "a member that had come before a step went on from it, though the server had died and no longer knew: other "
     "weights")
CASE("lost-files", 14, "1,2,4,7",
     "a member that had lost its files and begun anew was refused by a server that died before it had noted that")
CASE("lost-files", 370, "1,2,3,4",
     "a member that waited for a lost message was asked for its head and tail again and again, without a pause")
CASE("batches", 845242, "1,2,3,4",
     "a member's pause left a file beside its first checkpoint, so the group did not go back with one that had none")
CASE("turns", 87, "1,2,3,4,5,6",
     "a member could not write its model, and the full disk did not say that the others had ended: it waited for them")
CASE("late-rounds", 9100068, "1,2,3,4,5,6",
     "a member that was owed the round came while the others stood inside it: nobody could give it head and tail, or "
     "go on")
CASE("come-and-go-private", 9300026, "1,2,3,4,5,6,7,8",
     "a member that had come late went back to its first head and tail, which --absent did not know: it was away in "
     "step 1")
CASE("late-comer", 6000099, "1,2,3",
     "a member that was killed between its last weights and its first file was another client, and began another run, "
     "for which it waited for a quorum")
CASE("claims", 20001001, "6,7",
     "the simulator's: a liar without a file ended with status 66 where it had none of the step that it claimed")
CASE("private", 9300078, "1,2,3,4,5,6",
     "a server with an older store let members in that hold later states alone, and these came again without end")
CASE("vertical-three", 32008016, "2,3,4",
     "all went on from a checkpoint of which one member had only its state, not its file: another one died before its "
     "next file was written, and none was left that all held")
CASE("sync", 81037, "1,2,3,4",
     "a member was killed before its first file was on its disk, and got head and tail where all could begin anew; "
     "another one counted a file twice, and took its first state for given up")
CASE("unmet", 64001035, "1,2,3,4,5",
     "a member was killed between its model and its summary, and the next start ended with status 0, though a member "
     "got less than its part")
CASE("serial", 66004006, "1,2",
     "a message was lost on a live link, and a member that had done its last step took the others for done: status 78")
CASE("late-serial", 66000038, "1,2,3,4,5", "the same, where a server was started again")
CASE("late-serial", 12100899, "1,2,3,4,5,6,7,8",
     "a group told its members for whom it waits, and one that did not read lost its link by that: the group's job was "
     "queued twice, and the server stood still for ever")
CASE("clip-sync", 12115840, "1,3,4,5,6,7",
     "a member was killed behind its last step, when the others were done: nothing said that its log lacks steps that "
     "it had done")
CASE("late-serial", 77000003, "1",
     "a member lost its link while its group chose the first step, which forgot the batches that it had told: status "
     "78")
CASE("vertical-three", 96, "1",
     "a member was lost while another one came, which came again before the group had looked at its first link: it was "
     "welcomed by a group that had gone back, and the server ended by an assertion")
CASE("schedule", 17000604, "1,2,3,4,5,6",
     "a server was killed before it had synced the folder of a checkpoint, and went on from it: a power cut took it, "
     "when the client had no earlier one")
