"""The trace-event form of a report: ranks as processes, groups as threads, calls as slices, waiting as arrows."""
