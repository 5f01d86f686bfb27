"""Who is who, which communicator is which, who arrived where, and who waits for whom."""
