import type { ErrorKind } from '../../src/errors.ts'

/** `docs/errors.md` taken apart: the text before the first section, and the sentences of each section by its heading. */
export interface ErrorsDoc {
  readonly head: string
  readonly sections: readonly { readonly code: string; readonly facts: string; readonly text: string }[]
}

type Table = Readonly<Record<string, { readonly kind: ErrorKind; readonly next: string }>>

/** Stands where nobody has written the sentences yet; the test refuses it. */
export const UNWRITTEN = '(not written yet)'

/** The line under a heading: kind and next step, always those of the table in `src/errors.ts`. */
function facts(entry: Table[string]): string {
  return `**${entry.kind}** · ${entry.next}`
}

export function parseErrorsDoc(markdown: string): ErrorsDoc {
  const [head = '', ...rest] = markdown.split(/^## /m)
  const sections = rest.map((section) => {
    const [code = '', ...lines] = section.split('\n')
    const [first = '', ...text] = lines.join('\n').trim().split('\n')
    return { code: code.trim(), facts: first, text: text.join('\n').trim() }
  })
  return { head: head.trim(), sections }
}

/** The whole page: one section a code, in the order of the table, with the sentences of `doc` where it has them. */
export function renderErrorsDoc(table: Table, doc: ErrorsDoc): string {
  const texts = new Map(doc.sections.map((section) => [section.code, section.text]))
  const sections = Object.entries(table).map(
    ([code, entry]) => `## ${code}\n\n${facts(entry)}\n\n${texts.get(code) || UNWRITTEN}\n`,
  )
  return `${doc.head}\n\n${sections.join('\n')}`
}

/** A section explains when it says, in at least two sentences, what happened and why Tidemark acts so. */
export function explains(text: string): boolean {
  return !text.includes(UNWRITTEN) && (text.match(/[.!?](\s|$)/g) ?? []).length >= 2
}
