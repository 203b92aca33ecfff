// Operates VS Code's workbench in a browser page. All selectors are in this file.

const ACTION_TIMEOUT_MS = 60_000;

/** CSS selectors; a new release of VS Code may change them. */
const SELECTORS = {
  chatInput: '.interactive-input-part .interactive-input-editor .native-edit-context',
  sessionTarget: '.interactive-input-part .dropdown-label > [role="button"]',
  menuItem: '.action-widget .monaco-list-row.action',
  response: '.interactive-item-container.interactive-response',
  request: '.interactive-item-container.interactive-request',
  working: '.interactive-response.chat-response-loading',
  steps: '.chat-used-context-label > [aria-expanded]:visible',
  confirmation: '.chat-tool-confirmation-carousel-container',
  question: '.chat-question-carousel-widget-container',
  questionOption: '.chat-question-list-item',
  questionSubmit: '.chat-question-submit-button',
  sessions: '.agent-sessions-viewer .agent-session-item',
  hover: '.agent-session-hover',
  dialog: '.monaco-modal-editor-block',
  tab: '.editor-group-container .tabs-container .tab',
  closeTab: '.tab-actions .action-label',
  sash: '.monaco-sash.vertical',
  explorer: '.explorer-folders-view',
};

export class Workbench {
  constructor(page) {
    this.page = page;
    page.setDefaultTimeout(ACTION_TIMEOUT_MS);
  }

  /** Loads the workbench with a folder, and waits until it is ready. */
  async open(url, folder) {
    await this.page.goto(`${url}/?folder=${encodeURIComponent(folder)}`);
    await this.ready();
  }

  async reload() {
    await this.page.reload();
    await this.ready();
  }

  async ready() {
    await this.page.locator(SELECTORS.chatInput).waitFor();
    await this.page.locator(SELECTORS.explorer).waitFor();
  }

  /** Trusts the folder: VS Code runs nothing in an untrusted one. */
  async trustFolder() {
    await this.page.getByText('Manage', { exact: true }).first().click();
    const dialog = this.page.locator(SELECTORS.dialog);
    await dialog.getByRole('button', { name: 'Trust', exact: true }).first().click();
    await dialog.getByText('You trust this folder').waitFor();
    await dialog.getByRole('button', { name: /^Close/ }).first().click();
    await dialog.waitFor({ state: 'hidden' });
  }

  /** Closes the editors and widens the chat, so that the list of sessions is displayed beside it. */
  async widenChat() {
    await this.closeEditors();
    const width = this.page.viewportSize().width;
    const handles = await this.page.locator(SELECTORS.sash).all();
    const boxes = await Promise.all(handles.map((handle) => handle.boundingBox()));
    const right = boxes.filter((box) => box && box.height > 300).sort((a, b) => b.x - a.x)[0];
    const y = right.y + right.height / 2;
    await this.page.mouse.move(right.x + right.width / 2, y);
    await this.page.mouse.down();
    await this.page.mouse.move(width * 0.45, y, { steps: 5 });
    await this.page.mouse.up();
    await this.moveMouseAway();
  }

  async closeEditors() {
    const tabs = this.page.locator(SELECTORS.tab);
    while ((await tabs.count()) > 0) {
      const tab = tabs.last();
      await tab.hover();
      await tab.locator(SELECTORS.closeTab).click();
    }
  }

  /** Chooses the agent of a new chat. The first click sometimes only closes another popup. */
  async chooseAgent(name) {
    const picker = this.page.locator(SELECTORS.sessionTarget).filter({ hasText: 'Local' });
    const entry = this.page.locator(SELECTORS.menuItem).filter({ hasText: name });
    await retry(async () => {
      await picker.click();
      return appears(entry, 3_000);
    }, `"${name}" is not in the list of agents`);
    await entry.click();
    await picker.waitFor({ state: 'hidden' });
  }

  /** Sends a message in the chat. */
  async send(text) {
    await this.page.locator(SELECTORS.chatInput).click({ force: true });
    await this.page.keyboard.insertText(text);
    await this.page.keyboard.press('Enter');
  }

  /** Waits for a text in the last answer. */
  async waitForAnswer(text) {
    await this.page.locator(SELECTORS.response).last().getByText(text).first().waitFor();
  }

  /** Waits for a text anywhere in the chat. */
  async waitForText(text) {
    await this.page.locator(`${SELECTORS.request}, ${SELECTORS.response}`).getByText(text).first().waitFor();
  }

  /** Waits for the end of the turn. */
  async waitForTurnEnd() {
    await this.page.locator(SELECTORS.working).waitFor({ state: 'detached' });
  }

  /** Expands the steps of the last answer, which are collapsed after the turn. */
  async expandSteps() {
    const response = this.page.locator(SELECTORS.response).last();
    const steps = response.locator(SELECTORS.steps).or(response.getByText(/^(Completed|Finished) .*steps?/)).first();
    if ((await steps.getAttribute('aria-expanded')) !== 'true') await steps.click();
  }

  /** Waits for the terminal of a command in the last answer. */
  async waitForTerminal(command) {
    await this.page.locator(SELECTORS.response).last().getByLabel(`Terminal output for ${command}`).waitFor();
  }

  /** Waits for a permission request with this text. */
  async waitForPermissionRequest(text) {
    await this.page.locator(SELECTORS.confirmation).getByText(text).first().waitFor();
  }

  async allow() {
    const card = this.page.locator(SELECTORS.confirmation);
    await card.getByRole('button', { name: /^Allow( \(|$)/ }).last().click();
    await card.waitFor({ state: 'hidden' });
  }

  /** Opens the diff of a pending edit. */
  async viewChanges(file, line) {
    await this.page.locator(SELECTORS.confirmation).getByRole('button', { name: 'View All Changes' }).click();
    const editor = this.page.locator('.multiDiffEditor');
    await editor.getByText(file).first().waitFor();
    await editor.getByText(line).first().waitFor();
  }

  /** Waits for a question of the agent. */
  async waitForQuestion(text) {
    await this.page.locator(SELECTORS.question).getByText(text).first().waitFor();
  }

  /** Answers the question with one of its options. */
  async choose(option) {
    const card = this.page.locator(SELECTORS.question);
    await card.locator(SELECTORS.questionOption).filter({ hasText: option }).click();
    const submit = card.locator(SELECTORS.questionSubmit);
    if (await submit.isVisible()) await submit.click();
    await card.locator(SELECTORS.questionOption).first().waitFor({ state: 'hidden' });
  }

  /** The row of a session in the list. */
  session(title) {
    return this.page.locator(SELECTORS.sessions).filter({ hasText: title });
  }

  /** Waits until the row of a session contains a text. */
  async waitForListed(title, text) {
    await this.session(title).getByText(text).first().waitFor();
  }

  async openSession(title) {
    await this.session(title).first().click();
    await this.moveMouseAway();
  }

  /** Moves the mouse to a place without hover popups. */
  async moveMouseAway() {
    const { width, height } = this.page.viewportSize();
    await this.page.mouse.move(width * 0.35, height * 0.8);
    await this.page.locator(SELECTORS.hover).waitFor({ state: 'hidden' });
  }

  /** Waits for a file in the explorer. */
  async waitForFile(name) {
    await this.page.locator(SELECTORS.explorer).getByText(name, { exact: true }).waitFor();
  }
}

/** Repeats an attempt until it succeeds. */
async function retry(attempt, errorMessage) {
  const deadline = Date.now() + ACTION_TIMEOUT_MS;
  while (!(await attempt())) {
    if (Date.now() > deadline) throw new Error(errorMessage);
  }
}

async function appears(locator, timeout) {
  return await locator.waitFor({ timeout }).then(() => true, () => false);
}
