"""Reads what `tsctl export --memory-viz` writes, as strictly as its readers: PyTorch's viewer in a browser knows few words
of pickle, and goes back in time from the segments, where each event has to fit.

    memory_viz.py FILE...
"""
import io
import pickle
import pickletools
import sys

WORDS = {"PROTO", "STOP", "MARK", "BININT", "BININT1", "LONG1", "NEWTRUE", "NEWFALSE", "BINUNICODE", "EMPTY_DICT", "EMPTY_LIST",
         "SETITEMS", "APPENDS", "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT"}
ACTIONS = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "oom"}


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def need(truth, *what):
    if not truth:
        raise ValueError(" ".join(str(word) for word in what))


def check_words(data):
    batch = []
    for word, argument, at in pickletools.genops(data):
        need(word.name in WORDS, "the viewer does not know", word.name, "at", at)
        need(word.name != "PROTO" or 2 <= argument <= 4, "protocol", argument)
        need(word.name != "LONG1" or -2**63 <= argument < 2**63, "too long for the viewer:", argument)
        if word.name == "MARK":
            batch.append(at)
        elif word.name in ("SETITEMS", "APPENDS"):
            batch.pop()
    need(not batch, "marks are left")


def check_frames(frames):
    for frame in frames:
        need(set(frame) == {"filename", "line", "name"}, frame)
        need(isinstance(frame["filename"], str) and isinstance(frame["name"], str) and frame["line"] >= 0, frame)


def check_segments(segments):
    """Blocks tile their segment; segments do not overlap."""
    end = 0
    for segment in sorted(segments, key=lambda s: s["address"]):
        at, active = segment["address"], 0
        need(at >= end, "segments overlap at", hex(at))
        check_frames(segment["frames"])
        for block in segment["blocks"]:
            need(block["address"] == at and block["size"] > 0, "a gap at", hex(at), block)
            need(block["state"] in ("active_allocated", "active_pending_free", "inactive"), block["state"])
            need(block["requested_size"] <= block["size"], block)
            check_frames(block["frames"])
            at += block["size"]
            active += block["size"] if block["state"] != "inactive" else 0
        need(at == segment["address"] + segment["total_size"], "blocks end at", hex(at))
        need(active == segment["allocated_size"] == segment["active_size"], "sums of", hex(segment["address"]))
        end = at


def go_back(snapshot, device):
    """As simulate_memory() of the viewer does; it fails where something is not there."""
    segments = {s["address"]: s["total_size"] for s in snapshot["segments"] if s["device"] == device}
    blocks = {b["address"]: b["size"] for s in snapshot["segments"] if s["device"] == device
              for b in s["blocks"] if b["state"] != "inactive"}
    requested, last = None, None
    for event in reversed(snapshot["device_traces"][device]):
        action, address, size = event["action"], event["addr"], event["size"]
        need(action in ACTIONS, action)
        need(last is None or event["time_us"] <= last, "out of order at", event)
        last = event["time_us"]
        check_frames(event["frames"])
        need(requested is None or (action, address) == ("free_requested", requested), "no request before", requested)
        requested = None
        if action == "free_completed":
            need(address not in blocks, "it was live already:", event)
            need(any(at <= address and address + size <= at + length for at, length in segments.items()), "in no segment:", event)
            blocks[address] = size
            requested = address
        elif action == "alloc":
            need(blocks.pop(address, None) == size, "it is not live:", event)
        elif action == "segment_free":
            need(not any(at < address + size and address < at + length for at, length in segments.items()), "they overlap:", event)
            segments[address] = size
        elif action == "segment_alloc":
            need(segments.pop(address, None) == size, "it is not there:", event)
            need(not any(address <= at < address + size for at in blocks), "blocks are left in", event)
    need(requested is None, "no request before", requested)


class Snapshot:
    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        check_words(data)
        self.all = Unpickler(io.BytesIO(data)).load()
        self.segments, self.traces, self.about = self.all["segments"], self.all["device_traces"], self.all["tracesmith"]
        check_segments(self.segments)
        need(all(0 <= segment["device"] < len(self.traces) for segment in self.segments), "a device without a trace")
        for device in range(len(self.traces)):
            go_back(self.all, device)

    def reserved(self):
        return sum(segment["total_size"] for segment in self.segments)

    def live(self):
        return [block for segment in self.segments for block in segment["blocks"] if block["state"] == "active_allocated"]

    def live_bytes(self):
        return sum(block["size"] for block in self.live())


if __name__ == "__main__":
    for name in sys.argv[1:]:
        snapshot = Snapshot(name)
        print(f"{name}: {len(snapshot.segments)} segments of {snapshot.reserved()} bytes, {len(snapshot.live())} blocks of"
              f" {snapshot.live_bytes()}, {sum(map(len, snapshot.traces))} events, {snapshot.about}")
