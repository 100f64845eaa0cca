"""One run of the user's command in its own processes: `process` and `command` outside, `child` and `inject` inside."""
