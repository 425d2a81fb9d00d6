"""Reading what is archived: jobs, logs, events, timeline. Not how it is shown, and nothing that writes evidence."""
