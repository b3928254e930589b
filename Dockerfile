# The hook service and the companion CLI in one image; which of them runs is the command's business.
# The newest line that calls itself LTS (process.release.lts): 26.10.0 did not yet.
ARG NODE_IMAGE=docker.io/library/node:24.21.0-bookworm-slim
ARG HELM_IMAGE=docker.io/alpine/helm:3.22.0

FROM ${HELM_IMAGE} AS helm

FROM ${NODE_IMAGE} AS modules
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
RUN npm ci

# The program has all that it needs in itself. Of each package that went into it the manifest stays, by
# which scanners know it, and its licence.
FROM modules AS packages
RUN npm prune --omit=dev --omit=optional \
  && find node_modules ! -type d ! -name package.json ! -iname 'licen[cs]e*' ! -iname 'notice*' -exec rm {} + \
  && find node_modules -depth -type d -exec rmdir --ignore-fail-on-non-empty {} +

FROM modules AS build
COPY .ci/rolldown.config.js .ci/
COPY crds crds
COPY hooks hooks
COPY jobs jobs
COPY metacontroller metacontroller
RUN npm run build

FROM ${NODE_IMAGE}
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="vec-operator" \
  org.opencontainers.image.description="Kubernetes operator for the Qdrant vector engine" \
  org.opencontainers.image.source="https://github.com/vec-operator/vec-operator" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
# The slim base knows no certificate authority, and helm brings none: without them it trusts no
# repository of charts.
COPY --from=helm /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=helm /usr/bin/helm /usr/local/bin/helm
WORKDIR /app
COPY --from=packages /src/package.json ./
COPY --from=packages /src/node_modules node_modules
# Only the account that runs it may write here: what was compiled is run.
RUN ["node", "--eval", "fs.mkdirSync('compiled'); fs.chownSync('compiled', 1000, 1000)"]
ENV NODE_ENV=production NODE_OPTIONS=--use-system-ca NODE_COMPILE_CACHE=/app/compiled
USER 1000:1000
EXPOSE 8080
ENTRYPOINT ["node"]
CMD ["metacontroller/serve.js"]
COPY --from=build /src/dist/app ./
# Compiled here, once: a Job is to start at once.
RUN ["node", "--eval", "for (const file of fs.globSync('{chunks,jobs,metacontroller}/*.js')) import(`/app/${file}`)"]
