/** Where things are on the page. */

import type { Locator, Page } from 'playwright-core';
import type { Uri } from '../../src/ahp/index.ts';
import { formatRoute } from '../../src/app/route.ts';

/** The address of a session. */
export function sessionPath(session: Uri, chat?: Uri): string {
  return formatRoute({ view: 'session', session, ...(chat && { chat }) });
}

/** The list of sessions: beside the rest, or on a phone instead of it. */
export function sessionsPane(page: Page): Locator {
  return page.locator('[role=main], [role=complementary]').and(page.getByLabel('Sessions', { exact: true }));
}
