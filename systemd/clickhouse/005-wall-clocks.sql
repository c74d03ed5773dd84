-- Wall clocks that are set while their host runs.

-- The host's CLOCK_REALTIME - CLOCK_MONOTONIC at at_ns; 0: its shipper did not say so.
ALTER TABLE clock
	ADD COLUMN wall_offset_ns Int64 CODEC(Delta(8), LZ4);
