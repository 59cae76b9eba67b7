import models.pose
import models.tiny
