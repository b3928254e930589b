/** The little XML that S3 speaks. */

export interface S3Answer {
  status: number
  headers?: Record<string, string>
  body?: Buffer | string
}

/** Ends a call with an error answer. */
export class S3Error extends Error {
  readonly answer: S3Answer

  constructor(status: number, code: string, message: string, fields: Record<string, string> = {}) {
    super(code)
    const more = Object.entries(fields).map(([name, value]) => element(name, value))
    this.answer = xml(
      element('Error', element('Code', code) + element('Message', message) + more.join(''), true),
      status,
    )
  }
}

export function element(name: string, content: string, isXml = false): string {
  return `<${name}>${isXml ? content : escaped(content)}</${name}>`
}

export function elements(name: string, fields: Record<string, string | number>): string {
  const inner = Object.entries(fields).map(([field, value]) => element(field, String(value)))
  return element(name, inner.join(''), true)
}

export function xml(content: string, status = 200): S3Answer {
  return {
    status,
    headers: { 'content-type': 'application/xml' },
    body: `<?xml version="1.0" encoding="UTF-8"?>\n${content}`,
  }
}

/** Every value of an element, at any depth. */
export function valuesOf(text: string, name: string): string[] {
  return [...text.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, 'g'))].map(([, value = '']) =>
    unescaped(value),
  )
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

function unescaped(text: string): string {
  return text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&apos;', "'")
    .replaceAll('&#x27;', "'")
    .replaceAll('&amp;', '&')
}
