/* Seeds that failed once: CASE(row, seed, faults that it needs, what it showed). `make sim` runs them first. */
CASE("rounds", 1249, "1,2,3", "a member kept a checkpoint of steps that its group had given up: status 78")
CASE("sync", 1752, "1", "a lost Welcome: its member waited for the group for ever")
CASE("sync", 360, "1,3,4,5,6", "a member that was stopped without a checkpoint took its run for done")
