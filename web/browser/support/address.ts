/** Where a session is on the page. */

import type { Uri } from '../../src/ahp/index.ts';
import { format } from '../../src/app/route.ts';

export function address(session: Uri, chat?: Uri): string {
  return format({ view: 'session', session, ...(chat && { chat }) });
}
