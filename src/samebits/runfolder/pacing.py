"""How a paced run talks to what paces it: two named pipes in the run folder.

`go` brings a number of steps to take, or 0 to end there; `done` takes one JSON object when the run is ready, and one
for each block of steps that it took.
"""

GO, DONE = "go", "done"
