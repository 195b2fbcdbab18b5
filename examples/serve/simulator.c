/* A simulator in C: a cart with a pole, whose actions come from a marl server. Nothing but the C library and sockets.

   sh examples/serve/build_simulator.sh OUT     builds OUT/simulator
   OUT/simulator 127.0.0.1 9900 10              plays 10 episodes

   A message is repeated after a fault: (session, episode, t) names a step, so the server counts it once. */

#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 65536, TRIES = 20 };

static const char *host, *port;
static int connection = -1;
static char answer[LONGEST];

/* -- HTTP ------------------------------------------------------------------------------------------------------------ */

static int connect_to_server(void) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(host, port, &hints, &found) != 0) return -1;
    int made = -1;
    for (struct addrinfo *one = found; one != NULL && made < 0; one = one->ai_next) {
        made = socket(one->ai_family, one->ai_socktype, one->ai_protocol);
        if (made >= 0 && connect(made, one->ai_addr, one->ai_addrlen) != 0) {
            close(made);
            made = -1;
        }
    }
    freeaddrinfo(found);
    int on = 1; /* a request is sent in two pieces; without this the second waits for the first to be confirmed */
    if (made >= 0) setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return made;
}

static int send_all(const char *text, size_t size) {
    while (size > 0) {
        ssize_t sent = send(connection, text, size, MSG_NOSIGNAL);
        if (sent <= 0) return -1;
        text += sent;
        size -= (size_t)sent;
    }
    return 0;
}

/* Reads one answer; gives its HTTP status and leaves its body in `answer`, or -1 if the connection broke. */
static int receive(void) {
    static char head[LONGEST];
    size_t got = 0;
    char *body = NULL;
    while (body == NULL) {
        if (got == sizeof head - 1) return -1;
        ssize_t more = recv(connection, head + got, sizeof head - 1 - got, 0);
        if (more <= 0) return -1;
        got += (size_t)more;
        head[got] = 0;
        body = strstr(head, "\r\n\r\n");
    }
    body += 4;
    size_t size = 0, have = got - (size_t)(body - head);
    for (char *line = head; line < body; line = strchr(line, '\n') + 1)
        if (strncasecmp(line, "content-length:", 15) == 0) size = strtoul(line + 15, NULL, 10);
    if (size >= LONGEST || have > size) return -1;
    memcpy(answer, body, have);
    while (have < size) {
        ssize_t more = recv(connection, answer + have, size - have, 0);
        if (more <= 0) return -1;
        have += (size_t)more;
    }
    answer[size] = 0;
    return atoi(head + 9); /* HTTP/1.1 200 */
}

static void post(const char *kind, const char *message) {
    char head[512];
    int size = snprintf(head, sizeof head,
                        "POST /v1/%s HTTP/1.1\r\nHost: %s:%s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                        kind, host, port, strlen(message));
    for (int tries = 0; tries < TRIES; tries++) {
        if (connection < 0) connection = connect_to_server();
        int status = -1;
        if (connection >= 0 && send_all(head, (size_t)size) == 0 && send_all(message, strlen(message)) == 0) status = receive();
        if (status == 200) return;
        if (status > 0 && status != 429 && status != 503) { /* refused: the same again would be refused again */
            fprintf(stderr, "%s: %s\n", kind, answer);
            exit(1);
        }
        if (status < 0 && connection >= 0) {
            close(connection);
            connection = -1;
        }
        struct timespec pause = {.tv_sec = 0, .tv_nsec = 100000000L};
        nanosleep(&pause, NULL);
    }
    fprintf(stderr, "%s: the server does not answer\n", kind);
    exit(1);
}

/* The text, or number, after "key": in the last answer. */
static const char *value_of(const char *key) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"%s\":", key);
    const char *found = strstr(answer, wanted);
    if (found == NULL) {
        fprintf(stderr, "no %s in %s\n", key, answer);
        exit(1);
    }
    found += strlen(wanted);
    while (*found == ' ' || *found == '"') found++;
    return found;
}

/* -- the cart and its pole ------------------------------------------------------------------------------------------- */

typedef struct {
    double x, x_dot, theta, theta_dot;
} Cart;

static void step(Cart *cart, int action) {
    const double force = action == 1 ? 10.0 : -10.0, length = 0.5, pole = 0.1, total = 1.1, dt = 0.02;
    double cosine = cos(cart->theta), sine = sin(cart->theta);
    double pushed = (force + pole * length * cart->theta_dot * cart->theta_dot * sine) / total;
    double turning = (9.8 * sine - cosine * pushed) / (length * (4.0 / 3.0 - pole * cosine * cosine / total));
    double moving = pushed - pole * length * turning * cosine / total;
    cart->x += dt * cart->x_dot;
    cart->x_dot += dt * moving;
    cart->theta += dt * cart->theta_dot;
    cart->theta_dot += dt * turning;
}

static int has_fallen(const Cart *cart) { return fabs(cart->x) > 2.4 || fabs(cart->theta) > 12 * M_PI / 180; }

static void report(char *text, size_t size, const Cart *cart, const char *rest) {
    snprintf(text, size, "{\"agent_0\": {\"obs\": [%.9g, %.9g, %.9g, %.9g]%s}}", cart->x, cart->x_dot, cart->theta,
             cart->theta_dot, rest);
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "usage: %s HOST PORT EPISODES\n", words[0]);
        return 2;
    }
    host = words[1];
    port = words[2];
    char session[64], message[1024], agents[512];
    snprintf(message, sizeof message, "{\"protocol\": \"marl/1\", \"name\": \"simulator %ld\"}", (long)getpid());
    post("hello", message);
    sscanf(value_of("session"), "%63[^\"]", session);
    for (int episode = 0; episode < atoi(words[3]); episode++) {
        snprintf(message, sizeof message, "{\"session\": \"%s\", \"episode\": \"%d\"}", session, episode);
        post("start", message);
        srand((unsigned)atoi(value_of("seed")) + 1u);
        double start[4];
        for (int i = 0; i < 4; i++) start[i] = 0.1 * rand() / RAND_MAX - 0.05;
        Cart cart = {start[0], start[1], start[2], start[3]};
        int t = 0;
        const char *earned = ""; /* at t = 0 nothing has been earned yet */
        while (!has_fallen(&cart) && t < 500) {
            report(agents, sizeof agents, &cart, earned);
            snprintf(message, sizeof message, "{\"session\": \"%s\", \"episode\": \"%d\", \"t\": %d, \"agents\": %s}", session,
                     episode, t, agents);
            post("act", message);
            step(&cart, atoi(value_of("agent_0")));
            earned = ", \"reward\": 1.0";
            t++;
        }
        report(agents, sizeof agents, &cart,
               has_fallen(&cart) ? ", \"reward\": 1.0, \"terminated\": true" : ", \"reward\": 1.0, \"truncated\": true");
        snprintf(message, sizeof message, "{\"session\": \"%s\", \"episode\": \"%d\", \"t\": %d, \"agents\": %s}", session,
                 episode, t, agents);
        post("end", message);
        printf("episode %d: %d steps, return %.1f\n", episode, t, atof(value_of("agent_0")));
    }
    return 0;
}
