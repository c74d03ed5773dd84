// trace_query.mjs: runs SQL over a trace with trace_processor, built to wasm, in plain Node.
// node trace_query.mjs DIR TRACE SQL...: a line of JSON for each SQL, its rows as objects.
// DIR holds the unpacked engine, whose bytes were checked by who calls this (trace_processor.py):
// the two texts replaced below are known to be there.

import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const PIECE_BYTES = 32 << 20;  // as much as the engine takes at once
const ANY = null;              // the engine's type that fits every value

const [dir, trace, ...queries] = process.argv.slice(2);
const {EngineBase} = await import(path.join(dir, 'engine.mjs'));

// The engine is made for a browser's worker: it gets a global scope that looks like one, the 32 bit
// memory that every Node has, and the wasm from here in place of a download.
function startWorker() {
  const source = fs.readFileSync(path.join(dir, 'engine_bundle.node.js'), 'utf8')
    .replace('this.useMemory64 = hasMemory64Support()', 'this.useMemory64 = false')
    .replace('locateFile: (s) => s,', 'locateFile: (s) => s, wasmBinary: self.wasmBinary,');
  const worker = {
    wasmBinary: fs.readFileSync(path.join(dir, 'trace_processor.wasm')),
    location: {href: 'file:///'},
  };
  const quiet = {log() {}, warn() {}, error: (...line) => console.error(...line)};
  vm.compileFunction(source, ['self', 'WorkerGlobalScope', 'process', 'console'])(
    worker, Object, {}, quiet);
  return worker;
}

class Engine extends EngineBase {
  constructor(worker) {
    super();
    this.port = {postMessage: (data) => this.onRpcResponseBytes(data)};
    worker.onmessage({data: this.port});
  }

  rpcSendRequestBytes(data) {
    this.port.onmessage({data});
  }
}

async function load(engine, file) {
  const fd = fs.openSync(file);
  for (;;) {
    const piece = Buffer.alloc(PIECE_BYTES);
    const size = fs.readSync(fd, piece, 0, PIECE_BYTES);
    if (size === 0)
      break;
    await engine.parse(piece.subarray(0, size));
  }
  await engine.notifyEof();
}

function rowsOf(result) {
  const columns = result.columns();
  const rows = [];
  for (const it = result.iter(Object.fromEntries(columns.map((c) => [c, ANY]))); it.valid();
    it.next())
    rows.push(Object.fromEntries(columns.map((c) => [c, it[c]])));
  return rows;
}

// Integers keep all of their 64 bits: a BigInt is written as its digits.
function toJson(value) {
  if (typeof value === 'bigint')
    return value.toString();
  if (value instanceof Uint8Array)
    return JSON.stringify(Buffer.from(value).toString('base64'));
  if (Array.isArray(value))
    return `[${value.map(toJson).join(', ')}]`;
  if (value !== null && typeof value === 'object')
    return `{${Object.entries(value).map(([k, v]) => `${JSON.stringify(k)}: ${toJson(v)}`)
      .join(', ')}}`;
  return JSON.stringify(value);
}

const worker = startWorker();
await new Promise((resolve) => setImmediate(resolve));
const engine = new Engine(worker);
try {
  await load(engine, trace);
  for (const query of queries)
    console.log(toJson(rowsOf(await engine.query(query))));
} catch (error) {
  console.error(`trace_query: ${error.message ?? error}`);
  process.exitCode = 1;
}
