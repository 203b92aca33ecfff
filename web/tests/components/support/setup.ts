/** What components need from a browser and the simulated document lacks. */

import { afterEach } from 'vitest';
import { unmountAll } from './render.ts';

afterEach(() => unmountAll());

HTMLElement.prototype.scrollIntoView ??= () => undefined;
