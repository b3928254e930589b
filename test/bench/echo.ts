/**
 * The yardstick: a bare Fastify that reads the same body and sends it back; by /asking after the calls
 * of a pass over a collection, one after the other. Prints its URL.
 */
import fastify from 'fastify'

/** Where the engine is. */
const [, , engine = ''] = process.argv
const server = fastify({ bodyLimit: 16 * 1024 * 1024, keepAliveTimeout: 120_000 })
server.post('/*', async (request) => request.body)
server.post('/asking', async (request) => {
  // Its memory is a yardstick too: that of a server without outgoing calls.
  const { request: ask } = await import('undici')
  for (const path of ['/collections/docs', '/collections/docs/cluster']) {
    await (await ask(engine + path)).body.json()
  }
  return request.body
})
process.stdout.write(`${await server.listen({ port: 0, host: '127.0.0.1' })}\n`)
