/** A scripted WebSocket server. */

import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { WebSocket, WebSocketServer } from 'ws';
import { Client, type ClientOptions } from '../../src/ahp/client.ts';
import type { Environment, Socket } from '../../src/ahp/environment.ts';
import type { Action, Envelope } from '../../src/ahp/types/index.ts';
import { FakeEnvironment } from './fake-environment.ts';

export interface Frame {
  id?: number;
  method?: string;
  // biome-ignore lint/suspicious/noExplicitAny: whatever the client says
  params?: any;
  result?: unknown;
  error?: { code: number; message: string };
}

/** A queue whose consumers wait for items. */
class AsyncQueue<T> {
  readonly #here: T[] = [];
  readonly #waiting: ((item: T) => void)[] = [];

  add(item: T): void {
    const next = this.#waiting.shift();
    if (next) next(item);
    else this.#here.push(item);
  }

  next(): Promise<T> {
    const item = this.#here.shift();
    return item === undefined ? new Promise((resolve) => this.#waiting.push(resolve)) : Promise.resolve(item);
  }

  get count(): number {
    return this.#here.length;
  }
}

/** The server side of one connection. */
export class ServerConnection {
  readonly #socket: WebSocket;
  readonly frames = new AsyncQueue<Frame>();
  readonly closed: Promise<number>;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data) => this.frames.add(JSON.parse(String(data))));
    this.closed = once(socket, 'close').then(([code]) => code as number);
  }

  /** Waits for the next frame, which must have this method. */
  async expect(method: string): Promise<Frame & { id: number }> {
    const frame = await this.frames.next();
    if (frame.method !== method) throw new Error(`${method} was expected, and ${JSON.stringify(frame)} came`);
    return frame as Frame & { id: number };
  }

  answer(frame: { id: number }, result: unknown): void {
    this.send({ id: frame.id, result });
  }

  answerError(frame: { id: number }, code: number, message: string, data?: unknown): void {
    this.send({ id: frame.id, error: { code, message, data } });
  }

  send(message: object): void {
    this.#socket.send(JSON.stringify({ jsonrpc: '2.0', ...message }));
  }

  sendRaw(data: string | Buffer): void {
    this.#socket.send(data);
  }

  notify(method: string, params: object): void {
    this.send({ method, params });
  }

  sendAction(channel: string, serverSeq: number, action: Action, more: Partial<Envelope> = {}): void {
    this.notify('action', { channel, serverSeq, action, ...more });
  }

  /** Drops the connection without a close frame. */
  drop(): void {
    this.#socket.terminate();
  }

  /** Answers `initialize`. */
  async completeHandshake(serverSeq = 0): Promise<void> {
    const hello = await this.expect('initialize');
    const snapshots = [{ resource: 'ahp-root://', state: { agents: [] }, fromSeq: serverSeq }];
    this.answer(hello, { protocolVersion: '1.0.0', serverSeq, snapshots });
  }

  /** Answers `subscribe`. */
  async answerSubscribe(state: object, fromSeq = 0): Promise<Frame> {
    const request = await this.expect('subscribe');
    this.answer(request, { snapshot: { resource: request.params.channel, state, fromSeq } });
    return request;
  }
}

export class FakeServer {
  readonly connections = new AsyncQueue<ServerConnection>();
  readonly #server: WebSocketServer;

  private constructor(server: WebSocketServer) {
    this.#server = server;
    server.on('connection', (socket) => this.connections.add(new ServerConnection(socket)));
  }

  static async start(): Promise<FakeServer> {
    const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
    await once(server, 'listening');
    return new FakeServer(server);
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    for (const socket of this.#server.clients) socket.terminate();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

/** A client with a fake environment. */
export function createClient(
  url: string,
  options: Partial<ClientOptions> = {},
): { client: Client; world: FakeEnvironment } {
  const world = new FakeEnvironment((target) => new WebSocket(target) as unknown as Socket);
  const client = new Client({ url: () => url, environment: world, clientId: 'c', ...options });
  return { client, world };
}

/** The real environment of Node: sockets and clock. */
export function nodeEnvironment(): Environment {
  return {
    connect: (url) => new WebSocket(url) as unknown as Socket,
    now: () => Date.now(),
    random: () => Math.random(),
    after: (milliseconds, run) => {
      const timer = setTimeout(run, milliseconds);
      return () => clearTimeout(timer);
    },
    onNextFrame: (run) => {
      const soon = setImmediate(run);
      return () => clearImmediate(soon);
    },
    isOnline: () => true,
    onWake: () => () => undefined,
  };
}

/** Waits until a value matches. */
export function until<T>(
  readable: { subscribe(run: (value: T) => void): () => void },
  fits: (value: T) => boolean,
): Promise<T> {
  return new Promise((resolve) => {
    let stop: (() => void) | undefined;
    let done = false;
    stop = readable.subscribe((value) => {
      if (done || !fits(value)) return;
      done = true;
      queueMicrotask(() => stop?.());
      resolve(value);
    });
  });
}
