// The part of ClickHouse's HTTP interface that the tests need, in front of ClickHouse as a library (chdb).
// Arguments: the folder with node_modules, the folder for data, the port on loopback, the password of 'default'.
// One statement at a time; the settings of a request hold for it alone.
import { createRequire } from 'node:module';
import { unlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { gunzipSync } from 'node:zlib';

const [modules, data, port, password] = process.argv.slice(2);
const { Session } = createRequire(`${modules}/`)('chdb');
const session = new Session(data);
const words = new Set(['query', 'database', 'user', 'password', 'default_format', 'query_id', 'session_id',
  'wait_end_of_query', 'send_progress_in_http_headers', 'enable_http_compression', 'compress', 'decompress']);
let last = Promise.resolve();
let bodies = 0;

const run = async (text, format = 'TabSeparated') => Buffer.from((await session.queryAsync(text, { format })).bytes());
const quoted = (text) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

// Data that follows an INSERT goes by a file: the library takes statements as text only.
async function insert(text, body, format) {
  const path = `${data}.${bodies++}`;
  const at = text.search(/\sFORMAT\s+\w+\s*$/i);
  writeFileSync(path, body);
  try {
    return await run(`${text.slice(0, at)} FROM INFILE ${quoted(path)} ${text.slice(at)}`, format);
  } finally {
    unlinkSync(path);
  }
}

async function answer(request, body) {
  const ask = new URL(request.url, 'http://h').searchParams;
  const header = (name) => request.headers[`x-clickhouse-${name}`];
  let basic = Buffer.from((request.headers.authorization ?? '').replace('Basic ', ''), 'base64').toString().split(':');
  const key = header('key') ?? ask.get('password') ?? basic.slice(1).join(':');
  const user = header('user') ?? ask.get('user') ?? (basic[0] || 'default');
  if (user !== 'default' || key !== password)
    return [403, 516, `Code: 516. DB::Exception: ${user}: Authentication failed: password is incorrect, or there is no user with such name. (AUTHENTICATION_FAILED)\n`];
  const settings = [...ask].filter(([name]) => !words.has(name));
  try {
    await run(`USE ${'`' + (ask.get('database') ?? 'default').replaceAll('`', '\\`') + '`'}`);
    for (const [name, value] of settings)
      await run(`SET ${name} = ${quoted(value)}`);
    if (request.headers['content-encoding'] === 'gzip')
      body = gunzipSync(body);
    const format = header('format') ?? ask.get('default_format') ?? undefined;
    const query = ask.get('query') ?? '';
    if (/^\s*INSERT\s/i.test(query) && body.length)
      return [200, 0, await insert(query, body, format)];
    return [200, 0, await run(query + body.toString(), format)];
  } catch (error) {
    const code = /Code: (\d+)/.exec(error.message)?.[1] ?? 1002;
    return [code === '60' || code === '81' ? 404 : 500, code, error.message.slice(Math.max(0, error.message.indexOf('Code: '))) + '\n'];
  } finally {
    for (const [name] of settings)
      await run(`SET ${name} = DEFAULT`).catch(() => {});
  }
}

createServer((request, response) => {
  const parts = [];
  request.on('data', (part) => parts.push(part));
  request.on('end', () => {
    last = last.then(async () => {
      const [status, code, text] = await answer(request, Buffer.concat(parts));
      const headers = { 'Content-Type': 'text/tab-separated-values; charset=UTF-8', Connection: 'close' };
      if (code)
        headers['X-ClickHouse-Exception-Code'] = code;
      response.writeHead(status, headers).end(text);
    });
  });
}).listen(Number(port), '127.0.0.1');
