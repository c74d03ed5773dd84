// What the server answers. The page lies beside it, under an address that has the token.

export class Refused extends Error {}

export async function get(path, query = {}, signal = undefined) {
  const url = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(query))
    if (value !== '' && value !== null && value !== undefined)
      url.searchParams.set(name, value);
  const answer = await fetch(url, { signal, cache: 'no-store' });
  const type = answer.headers.get('Content-Type') ?? '';
  if (!type.startsWith('application/json'))
    throw new Refused(`The server says: ${answer.status} ${(await answer.text()).trim()}`);
  const data = await answer.json();
  if (data.error !== undefined)
    throw new Refused(data.error);
  return data;
}

export function query(name, options = {}, signal = undefined) {
  return get(`query/${name}`, options, signal);
}
