import type { Output, Paint } from '../terminal.ts'

/** Back to the start of the line, and clear it. */
const CLEAR = '\r\u001b[2K'

/**
 * The last line of a terminal, rewritten in place, with log lines passing above it. On anything but a terminal it shows
 * nothing and log lines are plain.
 */
export class LiveLine {
  readonly #output: Output
  readonly #paint: Paint
  #text = ''

  constructor(output: Output, paint: Paint) {
    this.#output = output
    this.#paint = paint
  }

  show(text: string): void {
    if (!this.#output.isTTY || text === this.#text) return
    this.#text = text
    this.#output.write(CLEAR + this.#shown())
  }

  /** A whole log line, above the live one. */
  print(line: string): void {
    const live = this.#text !== ''
    this.#output.write(`${live ? CLEAR : ''}${line}\n${live ? this.#shown() : ''}`)
  }

  /** Leaves the terminal as it should be for the shell. */
  end(): void {
    if (this.#text !== '') this.#output.write(CLEAR)
    this.#text = ''
  }

  /** One column less than there is: a full line makes some terminals wrap, and the next clear would miss the rest. */
  #shown(): string {
    return this.#paint('cyan', this.#text.slice(0, Math.max(0, this.#output.columns - 1)))
  }
}
