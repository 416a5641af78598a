"""The numbers that runner and worker agree on."""

PROTOCOL = 1
# Largest value and largest frame, until the runner has said its own.
PAYLOAD_MAX = 16 * 1024 * 1024
FRAME_MAX = PAYLOAD_MAX + 1024 * 1024
# A frame that has so many bytes is sent before more is added.
BATCH_BYTES = 256 * 1024
# Output that waits to be sent; whoever writes more has to wait for the runner.
WAITING_MAX = 4 * 1024 * 1024
# Largest failure; a larger one goes without its details.
FAILURE_MAX = 1024 * 1024
MESSAGE_MAX = 64 * 1024
