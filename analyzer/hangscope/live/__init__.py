"""From a running job to a bundle of files, as somebody could have collected them by hand; the job is only read."""
