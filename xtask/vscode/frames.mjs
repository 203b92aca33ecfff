// Proxy between the workbench and the host that records every frame, in both directions.

import { once } from 'node:events';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

import { onCleanup } from './processes.mjs';

/** Starts the proxy and returns its port. Each connection connects to the host anew, so the host may restart. */
export async function startFrameRecorder(options, host) {
  const { WebSocket, WebSocketServer } = createRequire(path.join(options.server, 'package.json'))('ws');
  const file = fs.openSync(path.join(options.out, 'frames.jsonl'), 'w');
  // Connects to the host first: while it is down, clients are refused, as by the host itself.
  const connecting = new WeakMap();
  const verifyClient = ({ req }, answer) => {
    const upstream = new WebSocket(host.url + req.url.slice(1), { maxPayload: 1 << 28 });
    const early = [];
    upstream.on('message', (data) => early.push(data));
    connecting.set(req, { upstream, early });
    upstream.once('open', () => answer(true));
    upstream.once('error', () => answer(false, 503));
  };
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0, maxPayload: 1 << 28, verifyClient });
  await once(server, 'listening');
  let connections = 0;
  server.on('connection', (client, request) => {
    const { upstream, early } = connecting.get(request);
    const connection = ++connections;
    const write = (entry) => fs.writeSync(file, `${JSON.stringify({ k: connection, t: Date.now(), ...entry })}\n`);
    const forward = (direction, to) => (data) => {
      write({ dir: direction, msg: parseFrame(data) });
      to.send(data.toString());
    };
    write({ open: request.url });
    upstream.removeAllListeners('message');
    early.forEach(forward('h>c', client));
    upstream.on('message', forward('h>c', client));
    client.on('message', forward('c>h', upstream));
    for (const [one, other, who] of [[client, upstream, 'client'], [upstream, client, 'host']]) {
      one.on('error', () => {});
      one.on('close', (code) => {
        write({ closed: who, code });
        other.terminate();
      });
    }
  });
  onCleanup(() => {
    server.clients.forEach((client) => client.terminate());
    server.close();
  });
  return server.address().port;
}

function parseFrame(data) {
  const text = data.toString();
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
