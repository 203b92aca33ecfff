/** Serves `dist` in front of a host that does not do so itself, with the same strictness, and lets everybody in. */

import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type PreviewServer, preview } from 'vite';

const ROOT = join(import.meta.dirname, '../..');
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data: blob:",
  "font-src 'self'",
  "connect-src 'self'",
  "manifest-src 'self'",
  "worker-src 'self'",
  "media-src 'self' blob:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types svelte-trusted-html',
].join('; ');

export class Front {
  readonly #server: PreviewServer;

  private constructor(server: PreviewServer) {
    this.#server = server;
  }

  /** `url` is the host's own, with its token. */
  static async start(url: string): Promise<Front> {
    const target = new URL(url);
    const headers = {
      'content-security-policy': POLICY,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    };
    const server = await preview({
      root: ROOT,
      configFile: false,
      logLevel: 'silent',
      preview: {
        host: '127.0.0.1',
        port: 0,
        headers,
        proxy: {
          '/ahp': {
            target: `ws://${target.host}`,
            ws: true,
            changeOrigin: true,
            headers: { origin: `http://${target.host}` },
            rewrite: () => `/${target.search}`,
          },
        },
      },
      plugins: [
        {
          name: 'an open door',
          configurePreviewServer({ middlewares }) {
            middlewares.use('/favicon.ico', (_request, response) => {
              response.statusCode = 204;
              response.end();
            });
            middlewares.use('/sign-in', (_request, response) => {
              response.setHeader('content-type', 'application/json');
              response.end(JSON.stringify({ signedIn: true, required: false }));
            });
          },
        },
      ],
    });
    return new Front(server);
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.httpServer.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    await this.#server.close();
  }
}
