import { type Leading, leadingWords } from './statements.ts'

/** Texts of handlers whose first words are remembered; they are few, and run for every event. */
const KNOWN_TEXTS = 512
const LONGEST_KNOWN = 8_192
const known = new Map<string, readonly Leading[]>()

/** The first words of each statement in a text. */
export function leading(text: string): readonly Leading[] {
  const found = known.get(text)
  if (found) return found
  if (known.size >= KNOWN_TEXTS) known.clear()
  const words = leadingWords(text)
  if (text.length <= LONGEST_KNOWN) known.set(text, words)
  return words
}
