// VS Code's workbench in a page, as a person uses it. All selectors are in this file.

const PATIENCE = 60_000;

/** A new release may call these otherwise. */
const AT = {
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
    page.setDefaultTimeout(PATIENCE);
  }

  /** Loads the workbench with a folder, and waits until it can be used. */
  async open(url, folder) {
    await this.page.goto(`${url}/?folder=${encodeURIComponent(folder)}`);
    await this.ready();
  }

  async reload() {
    await this.page.reload();
    await this.ready();
  }

  async ready() {
    await this.page.locator(AT.chatInput).waitFor();
    await this.page.locator(AT.explorer).waitFor();
  }

  /** Nothing is run in a folder before somebody has said that it may be trusted. */
  async trust() {
    await this.page.getByText('Manage', { exact: true }).first().click();
    const dialog = this.page.locator(AT.dialog);
    await dialog.getByRole('button', { name: 'Trust', exact: true }).first().click();
    await dialog.getByText('You trust this folder').waitFor();
    await dialog.getByRole('button', { name: /^Close/ }).first().click();
    await dialog.waitFor({ state: 'hidden' });
  }

  /** Closes what is open in the middle and gives the room to the chat, so that the list of sessions stands beside it. */
  async makeRoom() {
    await this.closeEditors();
    const width = this.page.viewportSize().width;
    const handles = await this.page.locator(AT.sash).all();
    const boxes = await Promise.all(handles.map((handle) => handle.boundingBox()));
    const right = boxes.filter((box) => box && box.height > 300).sort((a, b) => b.x - a.x)[0];
    const y = right.y + right.height / 2;
    await this.page.mouse.move(right.x + right.width / 2, y);
    await this.page.mouse.down();
    await this.page.mouse.move(width * 0.45, y, { steps: 5 });
    await this.page.mouse.up();
    await this.lookAway();
  }

  async closeEditors() {
    const tabs = this.page.locator(AT.tab);
    while ((await tabs.count()) > 0) {
      const tab = tabs.last();
      await tab.hover();
      await tab.locator(AT.closeTab).click();
    }
  }

  /** Chooses who answers in a new chat. The first click sometimes only closes something else. */
  async chooseAgent(name) {
    const picker = this.page.locator(AT.sessionTarget).filter({ hasText: 'Local' });
    const entry = this.page.locator(AT.menuItem).filter({ hasText: name });
    await until(async () => {
      await picker.click();
      return appears(entry, 3_000);
    }, `"${name}" is not among the agents`);
    await entry.click();
    await picker.waitFor({ state: 'hidden' });
  }

  /** Says something in the chat. */
  async say(text) {
    await this.page.locator(AT.chatInput).click({ force: true });
    await this.page.keyboard.insertText(text);
    await this.page.keyboard.press('Enter');
  }

  /** Waits for words of the last answer. */
  async answered(text) {
    await this.page.locator(AT.response).last().getByText(text).first().waitFor();
  }

  /** Waits until words are somewhere in the chat. */
  async shows(text) {
    await this.page.locator(`${AT.request}, ${AT.response}`).getByText(text).first().waitFor();
  }

  /** Waits until nothing runs. */
  async settled() {
    await this.page.locator(AT.working).waitFor({ state: 'detached' });
  }

  /** Opens the steps of the last answer, which are folded away when it is done. */
  async unfold() {
    const response = this.page.locator(AT.response).last();
    const steps = response.locator(AT.steps).or(response.getByText(/^(Completed|Finished) .*steps?/)).first();
    if ((await steps.getAttribute('aria-expanded')) !== 'true') await steps.click();
  }

  /** Waits for the terminal of a command in the last answer. */
  async ran(command) {
    await this.page.locator(AT.response).last().getByLabel(`Terminal output for ${command}`).waitFor();
  }

  /** Waits for a tool that wants to be allowed, by what it would do. */
  async asked(text) {
    await this.page.locator(AT.confirmation).getByText(text).first().waitFor();
  }

  async allow() {
    const card = this.page.locator(AT.confirmation);
    await card.getByRole('button', { name: /^Allow( \(|$)/ }).last().click();
    await card.waitFor({ state: 'hidden' });
  }

  /** Looks at what an edit that waits would change. */
  async viewChanges(file, line) {
    await this.page.locator(AT.confirmation).getByRole('button', { name: 'View All Changes' }).click();
    const editor = this.page.locator('.multiDiffEditor');
    await editor.getByText(file).first().waitFor();
    await editor.getByText(line).first().waitFor();
  }

  /** Waits for a question of the agent. */
  async questioned(text) {
    await this.page.locator(AT.question).getByText(text).first().waitFor();
  }

  /** Answers it by one of its options. */
  async choose(option) {
    const card = this.page.locator(AT.question);
    await card.locator(AT.questionOption).filter({ hasText: option }).click();
    const submit = card.locator(AT.questionSubmit);
    if (await submit.isVisible()) await submit.click();
    await card.locator(AT.questionOption).first().waitFor({ state: 'hidden' });
  }

  /** A session's line in the list. */
  session(title) {
    return this.page.locator(AT.sessions).filter({ hasText: title });
  }

  /** Waits until a session's line says something. */
  async listed(title, text) {
    await this.session(title).getByText(text).first().waitFor();
  }

  async openSession(title) {
    await this.session(title).first().click();
    await this.lookAway();
  }

  /** Rests the mouse where nothing pops up below it. */
  async lookAway() {
    const { width, height } = this.page.viewportSize();
    await this.page.mouse.move(width * 0.35, height * 0.8);
    await this.page.locator(AT.hover).waitFor({ state: 'hidden' });
  }

  /** Waits for a file in the explorer. */
  async hasFile(name) {
    await this.page.locator(AT.explorer).getByText(name, { exact: true }).waitFor();
  }
}

/** Tries until it works. */
async function until(attempt, otherwise) {
  const deadline = Date.now() + PATIENCE;
  while (!(await attempt())) {
    if (Date.now() > deadline) throw new Error(otherwise);
  }
}

async function appears(locator, timeout) {
  return await locator.waitFor({ timeout }).then(() => true, () => false);
}
